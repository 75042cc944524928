package cli

import "slices"

// keptPages are those of the codes with which a node is kept.
func keptPages() []page {
	return slices.Concat(keptNodePages(), keptPodPages(), keptRulePages(), keptSearchPages())
}

func keptPage(gate, code, meaning, detected, causes, fix string) page {
	return page{code, "why-kept, gate " + gate, meaning, detected, causes, fix}
}

func keptNodePages() []page {
	const gate = "node"
	return []page{
		keptPage(gate, "NotManaged", "the node was not made by this controller, so it is never disrupted by it.",
			"No NodeClaim has the node's provider ID.", "A managed node group, a self-managed instance.", "Nothing; delete it by the means it was made with."),
		keptPage(gate, "NoNode", "the NodeClaim has no Node yet.",
			"No Node has the claim's provider ID.", "The instance is starting, or does not join.", "kubectl karp why-stuck tells how far it is."),
		keptPage(gate, "HeldByCommand", "a disruption command that is under way holds the node.",
			"The annotation karp.sh/intent of the NodeClaim.", "Its replacement is starting, or its pods are being drained.", "Wait; a command that cannot go on is withdrawn after at least ten minutes."),
		keptPage(gate, "NotInitialized", "the node is not initialized yet.",
			"The label karpenter.sh/initialized is not true.", "Startup taints, resources that are not registered, a kubelet that is not ready.", "kubectl karp why-stuck tells what it waits for."),
		keptPage(gate, "Deleting", "the node is on its way out already.",
			"A deletion timestamp on Node or NodeClaim, or a command that removes it.", "Expiry, interruption, a person, or an earlier decision.", "kubectl karp why-stuck tells what it waits for."),
		keptPage(gate, "Nominated", "a scheduling pass has chosen the node for a pod a moment ago.",
			"A nomination less than twice the longest batch ago.", "Pods that are about to arrive.", "Wait some seconds."),
		keptPage(gate, "DoNotDisruptNode", "the node is marked as not to be disrupted.",
			"The annotation karpenter.sh/do-not-disrupt: \"true\" on the Node; a termination grace period does not waive it.", "Set by a person, or by the pool's template.", "kubectl annotate node NAME karpenter.sh/do-not-disrupt-"),
		keptPage(gate, "NoSuchPool", "the node names no NodePool, or one that does not exist.",
			"The label karpenter.sh/nodepool of the Node.", "A pool that was deleted with --cascade=orphan, a label that was removed.", "Restore the label or the pool, or delete the NodeClaim."),
		keptPage(gate, "Unreadable", "something that the decision depends on could not be read, so the node is left alone.",
			"The API server refused or failed a list; the detail names the kind.", "Missing rights, an overloaded API server.", "Check the agent's log and its ClusterRole."),
	}
}

func keptPodPages() []page {
	const gate = "pods"
	return []page{
		keptPage(gate, "DoNotDisruptPod", "a pod on the node must not be disrupted.",
			"The annotation karpenter.sh/do-not-disrupt on an active pod: \"true\", or a duration that has not passed since it started.", "Jobs and other pods that cannot be moved. DaemonSet and static pods count, too.", "Wait for the pod to end or the duration to pass, or remove the annotation. Drift does not wait where the claim has a terminationGracePeriod."),
		keptPage(gate, "PDBBlocks", "a PodDisruptionBudget does not let a pod of the node go at the moment.",
			"status.disruptionsAllowed is 0 of the one budget that selects the pod.", "Unhealthy replicas, or a budget as large as the number of replicas.", "Make the pods healthy, add a replica, or relax the budget."),
		keptPage(gate, "MultiplePDBs", "several PodDisruptionBudgets select the same pod: the API server then refuses every eviction.",
			"The selectors of the budgets in the pod's namespace.", "Budgets made by different tools.", "Delete all but one of them."),
	}
}

func keptRulePages() []page {
	const gate = "rules"
	return []page{
		keptPage(gate, "StaticPool", "the node belongs to a pool with a fixed number of nodes, which is neither emptied nor consolidated.",
			"spec.replicas of the NodePool.", "The pool's purpose.", "kubectl karp scale nodepool NAME --replicas N"),
		keptPage(gate, "TypeUnknown", "the node's instance type is not among those of its pool.",
			"The label node.kubernetes.io/instance-type against the pool's catalogue.", "A type that is not offered in the class's zones any more.", "The node drifts after an hour (InstanceTypeNotFound)."),
		keptPage(gate, "LabelMissing", "the node lacks its zone or capacity type, without which its price is unknown.",
			"The labels topology.kubernetes.io/zone and karpenter.sh/capacity-type of the Node.", "A label that was removed.", "Restore the label."),
		keptPage(gate, "ConsolidationOff", "the pool does not consolidate.",
			"consolidateAfter is Never.", "The pool's owner turned it off.", "Set spec.disruption.consolidateAfter to a duration."),
		keptPage(gate, "BufferPods", "the node keeps room for a capacity buffer.",
			"Virtual pods of a CapacityBuffer were placed on it by the last provisioning pass.", "A buffer.", "Lower the buffer if the room is not needed."),
		keptPage(gate, "PolicyWhenEmpty", "the pool removes only nodes that are empty.",
			"consolidationPolicy is WhenEmpty and pods would have to move.", "The pool's policy.", "Set the policy to WhenEmptyOrUnderutilized or Balanced."),
		keptPage(gate, "TimerRunning", "a pod has come or gone too recently.",
			"status.lastPodEventTime of the NodeClaim plus consolidateAfter is not over.", "Churn on the node.", "Wait, or shorten consolidateAfter."),
		keptPage(gate, "NotEmpty", "pods would have to move, so the node is not empty.",
			"A pod that is neither of a DaemonSet nor static, with a positive eviction cost.", "Workload.", "Ask for the reason Underutilized."),
		keptPage(gate, "NotDrifted", "the node is what its pool would launch now.",
			"Condition Drifted of the NodeClaim is not True.", "Nothing has changed.", "kubectl karp drift-diff compares claim and pool."),
		keptPage(gate, "NoBudget", "the pool's disruption budget is used up or closed.",
			"The smallest active budget for the reason, less the nodes that are leaving or not Ready.", "A schedule, a small percentage, nodes that are not Ready.", "kubectl karp budget-preview shows when it opens."),
		keptPage(gate, "BudgetMalformed", "a disruption budget of the pool cannot be read, so the pool allows nothing.",
			"spec.disruption.budgets; one malformed budget closes the pool for every reason.", "A schedule with a time zone or a name that does not exist.", "Correct the budget that the report names."),
	}
}

func keptSearchPages() []page {
	const gate = "search"
	return []page{
		keptPage(gate, "PriceUnknown", "what the node costs is unknown, so no replacement can be called cheaper.",
			"No offering of the node's type in its zone with its capacity type has a price.", "A type that is not sold there any more, missing price data.", "The node can still be deleted if its pods fit elsewhere."),
		keptPage(gate, "PodsWouldNotFit", "pods of the node would fit neither on other nodes nor on a new one.",
			"A simulation without the node.", "Selectors, affinities, volumes or sizes that nothing else serves; nodes inside consolidateAfter take no moved pods.", "kubectl karp why-pending on such a pod's copy tells which rule."),
		keptPage(gate, "UninitializedTarget", "pods of the node would go to a node that is not initialized yet.",
			"A simulation without the node.", "A node that is starting.", "Wait for it."),
		keptPage(gate, "NeedsMoreThanOneNode", "several new nodes would be needed, and together they are not cheaper.",
			"A simulation without the node.", "Pods that do not fit on one cheaper node.", "Nothing; it is consolidated as soon as it pays."),
		keptPage(gate, "NoCheaperReplacement", "no instance type that would hold the pods is cheaper.",
			"The dearest price a launch could end at, of all types that would do, is not below the node's price.", "The node is well used, or the pool's requirements exclude cheaper types.", "Let the pool use more types, zones or capacity types."),
		keptPage(gate, "SavingTooSmall", "a replacement would save less than the minimum.",
			"The saving against consolidationMinimumSaving (2 % of the price by default).", "Prices close to each other.", "Lower the setting if such moves are wanted."),
		keptPage(gate, "SameType", "a new node of a type that is already there would be launched: deleting the other nodes does the same.",
			"The same-type guard of moves of several nodes.", "Half-empty nodes of one type.", "Nothing; the other nodes are deleted instead."),
		keptPage(gate, "SpotToSpotOff", "spot nodes are not replaced by cheaper spot nodes.",
			"The feature gate SpotToSpotConsolidation is off.", "Karpenter's default.", "Turn the gate on in FEATURE_GATES."),
		keptPage(gate, "SpotFlexibility", "replacing one spot node by another needs 15 cheaper types to choose from.",
			"The cheaper spot types that hold the node's pods.", "Narrow requirements; the rule keeps spot nodes in deep pools.", "Let the pool use more instance families."),
		keptPage(gate, "ScoreTooLow", "the move saves too little for the pods it disrupts.",
			"Policy Balanced: share of the pool's cost saved / share of its disruption, at least 0.5.", "Many pods on a cheap node.", "Nothing, or the policy WhenEmptyOrUnderutilized."),
		keptPage(gate, "NearOptimal", "all nodes together cost hardly more than the least that is possible, so none is moved.",
			"The price of the nodes against a lower bound for all their pods: within 1 %.", "A well consolidated cluster.", "Nothing."),
		keptPage(gate, "InQueue", "the node may go, but others go first.",
			"No gate is closed; the commands of this pass are about other nodes.", "Budgets, or other nodes that save more.", "Wait for the next passes."),
		keptPage(gate, "Churning", "commands for the node are withdrawn each time because the cluster changes.",
			"The validation 15 s after the decision failed.", "Pods that come and go all the time.", "A longer consolidateAfter lets the node come to rest."),
		keptPage(gate, "NotEvaluatedYet", "the agent has not looked at the node since it changed.",
			"The condition Consolidatable is missing although nothing forbids it.", "An agent that has just started, or is not running.", "Wait a minute; then check the agent."),
		keptPage(gate, "WillGo", "nothing keeps the node: the next pass removes it.",
			"All gates are open.", "A saving, drift or emptiness.", "Nothing; to keep it, annotate it with karpenter.sh/do-not-disrupt=true."),
	}
}
