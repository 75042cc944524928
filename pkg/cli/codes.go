package cli

import "slices"

// codePages holds a page for every code that a report can show.
func codePages() []page {
	return slices.Concat(requestPages(), placePages(), constraintPages(), typePages(), offeringPages(), launchPages(), scalePages(), keptPages())
}

func requestPages() []page {
	const layer = "request"
	return []page{
		pendingPage(layer, "SchedulingGated", "the pod is held by a scheduling gate and asks for no node.",
			"spec.schedulingGates is not empty.", "A queue such as Kueue, or another controller, has not released the pod yet.", "Look at the controller that owns the gate. The report says what would be launched once it opens."),
		pendingPage(layer, "OtherScheduler", "the pod belongs to another scheduler, which has not looked at it.",
			"spec.schedulerName is not the default one and the pod has no condition PodScheduled with reason Unschedulable.", "The other scheduler is not running, or is busy.", "Check that scheduler. As soon as it reports the pod unschedulable, nodes are made for it like for any other."),
		pendingPage(layer, "AwaitingScheduler", "the scheduler has not looked at the pod yet.",
			"The pod has no condition PodScheduled with reason Unschedulable.", "The pod is seconds old, or the scheduler is overloaded or down.", "Wait a few seconds; if it stays so, check kube-scheduler."),
		pendingPage(layer, "Preempting", "the pod waits for pods of lower priority to leave a node.",
			"status.nominatedNodeName is set by the scheduler.", "A preemption is under way; the victims still use their grace periods.", "Wait, or look at what keeps the victims from ending."),
		pendingPage(layer, "DaemonSetPod", "the pod belongs to a DaemonSet or is a static pod; nodes are never made for those.",
			"An owner reference to a DaemonSet or a Node.", "The node the pod is meant for has no room.", "Free room on that node; DaemonSets count when nodes are sized, so new nodes have room for them."),
		pendingPage(layer, "OptedOut", "the pod requires a node that belongs to no NodePool.",
			"A required node affinity karpenter.sh/nodepool DoesNotExist.", "The pod was kept off on purpose.", "Remove the affinity, or add a node by other means."),
		pendingPage(layer, "InvalidVolumeClaim", "one of the pod's volume claims cannot be used, so no node is planned for it.",
			"The claim, its StorageClass or its volume is missing or inconsistent.", "A claim that was never made, a wrong storageClassName, a deleted volume.", "Create or correct the claim that the report names."),
		pendingPage(layer, "InvalidRequirement", "a selector or affinity of the pod is not valid or uses a restricted label.",
			"The requirement does not pass validation, or its key may not be used for nodes.", "A misspelled operator, an empty value list, a label such as kubernetes.io/hostname.", "Correct the requirement that the report names."),
		pendingPage(layer, "DRANotSupported", "the pod asks for devices by resource claims, which are not simulated.",
			"spec.resourceClaims is not empty.", "Dynamic resource allocation.", "Add a node by other means, or set ignore-dra-requests to false, so that claims are simulated."),
		pendingPage(layer, "InvalidDeviceClaim", "a resource claim of the pod is missing or asks for what cannot be given.",
			"The claim, its device classes and selectors; at most 32 devices; matchAttribute is the only constraint that is simulated.", "A claim or DeviceClass that was never made, a selector that does not compile.", "Create or correct what the report names; the pod is tried again in the next pass."),
		pendingPage(layer, "NotPending", "the pod is not waiting for a node.",
			"It is bound to a node, being deleted, or has ended.", "It was scheduled meanwhile.", "If it does not start on its node, kubectl describe pod says why."),
		pendingPage(layer, "Unsupported", "the pod has a constraint that this version does not understand; it is left alone rather than misplaced.",
			"A field of the pod that is newer than this version.", "A newer Kubernetes API.", "Upgrade, or remove the constraint that the report names."),
		pendingPage(layer, "TargetGone", "the node or NodeClaim that the pod was placed on is leaving or gone.",
			"The cluster changed between the decision and its execution.", "A node that was deleted or interrupted meanwhile.", "Wait for the next pass, which decides again."),
		pendingPage(layer, "Cut", "the pod was not tried in the last pass, because the pass reached its step budget.",
			"The policy that runs limits the steps of a pass.", "Very many pods at once.", "Wait for the next pass."),
	}
}

func placePages() []page {
	return []page{
		pendingPage("existing", "CapacityComing", "a node for the pod is on its way or would be made now.",
			"A NodeClaim that is not initialized has room for the pod, or the simulation of the next pass launches one.", "The normal case a few seconds after a pod appears.", "Wait; --wait returns when the pod is scheduled. The report says by when the node must have joined."),
		pendingPage("existing", "SchedulerDisagrees", "the pod fits on an existing node, but the scheduler does not put it there.",
			"The simulation places the pod on a node that is ready.", "The scheduler is about to, a plug-in or webhook of the scheduler objects, or the node changed a moment ago.", "Compare with the scheduler's own event on the pod (kubectl describe pod)."),
		pendingPage("nodepool", "NoNodePools", "there are no NodePools.",
			"The list of NodePools is empty.", "A new installation.", "Create a NodePool and a node class."),
		pendingPage("nodepool", "NodePoolNotReady", "the pool is not Ready, so nothing is launched from it.",
			"Condition Ready of the NodePool is not True; the report follows it down to the cause.", "A node class that finds no subnets, security groups or images, or is missing.", "Repair the object at the end of the chain."),
		pendingPage("nodepool", "NodePoolDeleting", "the pool is being deleted.",
			"metadata.deletionTimestamp is set.", "Somebody deleted it; its nodes are drained first.", "Use another pool, or create it again afterwards."),
		pendingPage("nodepool", "NodePoolStaticOnly", "the pool has a fixed number of nodes and does not grow for pods.",
			"spec.replicas is set and none of its nodes has room.", "The pod selects a static pool, or no dynamic pool matches it.", "kubectl karp scale nodepool NAME --replicas N, or let the pod use another pool."),
		pendingPage("nodepool", "CatalogUnknown", "what the pool can launch could not be read.",
			"The catalogue of the pool's node class is missing or failed.", "A node class of another provider, or a region without data.", "Check the node class; the pool's other layers cannot be judged until then."),
	}
}

func constraintPages() []page {
	const layer, topology = "constraints", "topology"
	return []page{
		pendingPage(layer, "TaintNotTolerated", "the pod does not tolerate a taint of the pool.",
			"spec.template.spec.taints of the NodePool against the pod's tolerations. Startup taints do not count.", "A pool reserved for special pods; a forgotten toleration.", "Add the toleration to the pod, if it is meant to run there."),
		pendingPage(layer, "LabelUnknown", "the pod wants a label that the pool does not set.",
			"The key is neither well known nor in the pool's labels or requirements.", "A label of another cluster, a misspelled key, a pool that was never made.", "Drop the selector, or give a NodePool the label. A label added to a pool drifts its nodes."),
		pendingPage(layer, "LabelConflict", "the pod wants a value that the pool does not allow.",
			"The requirements of pod and pool on the key have no value in common, or leave none of the pool's types or zones.", "The pod selects another pool, zone, architecture or capacity type.", "Let the pool allow the value, or the pod give up the selector."),
		pendingPage(topology, "VolumeZoneConflict", "the pod's volume is where the pool does not launch.",
			"The node affinity of the bound volume, or the topologies of its StorageClass, against the pool's zones.", "The pool lost a zone, or the volume was made elsewhere.", "Allow the zone in a pool. Moving the data needs a snapshot and a new volume."),
		pendingPage(topology, "SpreadUnsatisfiable", "no domain that the pool can launch in keeps the pod's spread within maxSkew.",
			"Matching pods are counted over all domains that the pod may use.", "The pool lacks a zone that has fewer pods.", "Allow the missing zone in the pool; or let the spread give way with ScheduleAnyway, which gives up its guarantee."),
		pendingPage(topology, "AffinityUnsatisfiable", "the pod's affinity or anti-affinity to other pods cannot be met in the pool.",
			"Matching pods are searched in all domains of the topology key.", "Required anti-affinity with more replicas than zones, or affinity to pods in a zone the pool lacks.", "Prefer instead of require, or let the pool use the zone."),
	}
}

func typePages() []page {
	const layer = "instance type"
	return []page{
		pendingPage(layer, "ResourceNotOffered", "the pod asks for a resource that none of the pool's types has.",
			"The resource is in the capacity of no type.", "A GPU or another device asked for from a general pool.", "Use a pool with such types; the report shows which change would let them in."),
		pendingPage(layer, "TooBig", "the pod asks for more than any of the pool's types leaves after overhead and DaemonSets.",
			"Requests against allocatable minus DaemonSets, type by type. Allocatable is that of a live node of the type if there is one, else computed.", "A request just over a type's size, a pool with few types, DaemonSets that grew.", "Ask for a little less, or allow a larger type."),
		pendingPage(layer, "TooManyPods", "the types can run too few pods: DaemonSets take all places.",
			"The pod count of the types minus the DaemonSet pods.", "Small types with few network interfaces, or a low maxPods.", "Allow larger types, or raise maxPods in the node class."),
		pendingPage(layer, "HostPortConflict", "a DaemonSet takes the pod's host port on every node of the pool.",
			"Host ports of the pod against those of the DaemonSets that would run.", "An ingress or monitoring agent as DaemonSet.", "Use another port, or no host port."),
		pendingPage(layer, "DevicesUnavailable", "no instance type of the pool has devices for the pod's resource claims.",
			"Devices that drivers have published for several nodes, and those that the provider knows for a type, less what is in use.", "A driver whose devices the provider does not know before a node runs, or too few devices.", "Ask for fewer devices, or add a node by other means."),
		pendingPage(layer, "MinValuesUnsatisfied", "the types that are left for the pod are fewer than the pool's minValues demands.",
			"minValues of a requirement with policy Strict.", "A narrow pod and a pool that insists on choice.", "Lower minValues, widen the requirement, or set the policy to BestEffort."),
	}
}

func offeringPages() []page {
	const layer = "offering"
	return []page{
		pendingPage(layer, "NoSuchOffering", "the types left are not sold in the zones and capacity types left.",
			"No offering exists for the combination.", "A type that a zone does not have; spot where there is none.", "Allow another zone, type or capacity type."),
		pendingPage(layer, "ZoneWithoutSubnet", "the pool has no subnet in the zones the pod may use.",
			"The zones of status.subnets of the node class.", "A selector that misses a subnet, or a zone that was never set up.", "Add a subnet in the zone and tag it so that the class finds it."),
		pendingPage(layer, "OfferingUnavailable", "everything that would do is sold out at the moment.",
			"The cloud refused launches with an insufficient-capacity error. With an agent the time of the next try is known; without one the events of failed launches tell.", "A scarce type, few zones, on-demand only.", "Allow more types, zones or spot; or wait: it is tried again about 3 minutes after each failure."),
		pendingPage(layer, "QuotaReached", "the account's quota closes the capacity type.",
			"The cloud refused launches with a quota error.", "A low vCPU or spot quota.", "Raise the quota with the cloud, or use another capacity type."),
		pendingPage(layer, "ReservationFull", "the capacity reservations are used up.",
			"Free instances of the reservations in status.capacityReservations.", "Reserved capacity only, and all of it in use.", "Allow on-demand or spot as well, or enlarge the reservation."),
		pendingPage(layer, "ZonalShift", "traffic is shifted away from the only zones that would do.",
			"A zonal shift of the cloud is active.", "An incident in the zone.", "Allow another zone, or wait until the shift ends."),
		pendingPage(layer, "OutOfIPs", "the subnets have no free addresses.",
			"The cloud refused launches for lack of addresses, or the subnets report none.", "Small subnets, many warm addresses.", "Add a subnet, or free addresses."),
		pendingPage("limit", "LimitReached", "the pool may not grow by a type that would do.",
			"spec.limits minus what the pool's nodes use, against the types that pass all other layers.", "A limit set for cost that has been reached.", "Raise the limit, or make the pod fit a type within it."),
	}
}

func launchPages() []page {
	const layer = "launch"
	return []page{
		pendingPage(layer, "LaunchFailed", "the node for the pod cannot be launched.",
			"Condition Launched of the NodeClaim, or an event.", "Missing permissions, a bad image or profile, sold-out capacity.", "The report carries the cloud's own message."),
		pendingPage(layer, "NotRegistering", "the instance runs but its node does not join.",
			"Condition Registered is not True; the claim is given up 15 minutes after its launch.", "User data, security groups, the node role or the API endpoint.", "Look at the instance's console output."),
		pendingPage(layer, "NotInitializing", "the node has joined but does not become ready for pods.",
			"Condition Initialized is not True. There is no time limit.", "See the refined codes.", "Repair what the report names; deleting the claim only repeats it."),
		pendingPage(layer, "NotInitializing.StartupTaint", "a startup taint has not been removed.",
			"A taint of spec.startupTaints is still on the node.", "The DaemonSet that removes it does not run or crashes.", "Repair that DaemonSet; the report names its failing pods and shows the command for their logs."),
		pendingPage(layer, "NotInitializing.EphemeralTaint", "a taint of Kubernetes itself is still on the node.",
			"node.kubernetes.io/not-ready, unreachable or the cloud provider's uninitialized taint.", "The cloud controller manager or the network plug-in is not running.", "Check those."),
		pendingPage(layer, "NotInitializing.ResourceNotRegistered", "the node does not show a resource it was launched for.",
			"A resource in the claim's requests is absent from status.allocatable of the node.", "A device plug-in that is not running.", "Check the device plug-in's DaemonSet on the node."),
		pendingPage(layer, "NotInitializing.NodeNotReady", "the node is not Ready.",
			"Condition Ready of the node.", "The kubelet or the network plug-in.", "kubectl describe node tells the kubelet's reason."),
	}
}

func scalePages() []page {
	refusal := func(code, meaning, detected, causes, fix string) page {
		return page{code, "scale nodepool, refusal: nothing is written", meaning, detected, causes, fix}
	}
	warning := func(code, meaning, detected, causes, fix string) page {
		return page{code, "scale nodepool, warning", meaning, detected, causes, fix}
	}
	return []page{
		refusal("NotStatic", "the pool is dynamic: it has no replicas, and one cannot be added later.", "spec.replicas is absent.", "A pool that grows for pods.", "Set limits instead, or create a static pool."),
		refusal("GateOff", "the feature gate StaticCapacity is off: the number would be stored and nothing launched.", "The agent's settings, else the controller's Deployment.", "Karpenter's default.", "Turn the gate on: StaticCapacity=true in FEATURE_GATES (Helm value settings.featureGates.staticCapacity)."),
		refusal("CurrentReplicasMismatch", "the pool does not have the number of replicas that --current-replicas names.", "spec.replicas.", "Somebody else scaled it.", "Look again, then repeat the command."),
		refusal("ResourceVersionMismatch", "the pool has changed since the version that --resource-version names.", "metadata.resourceVersion.", "Somebody else changed it.", "Look again, then repeat the command."),
		warning("LimitBelowReplicas", "limits.nodes is lower than the replicas, so fewer nodes are made.", "spec.limits.nodes.", "A limit that was forgotten.", "Raise limits.nodes."),
		warning("NoSpareForDrift", "limits.nodes equals the replicas, so drifted nodes cannot be replaced before they leave.", "spec.limits.nodes.", "A limit without room.", "Set limits.nodes at least one higher."),
		warning("NotReady", "the pool is not Ready: nothing is added until it is.", "Condition Ready of the NodePool.", "Its node class.", "kubectl karp why-pending on a pod that waits for it follows the chain."),
		warning("SettingsUnknown", "the controller's settings could not be read, so nobody knows whether StaticCapacity is on.", "Neither an agent answered nor could the controller's Deployment be read.", "Missing rights, or a controller in another namespace.", "Name its namespace with --agent-namespace, or ask for the right to read it."),
		warning("LastPodOfPDB", "a leaving node runs pods that a PodDisruptionBudget does not let go now.", "status.disruptionsAllowed of the budgets that select the node's pods.", "As many replicas as the budget demands.", "The node waits until the budget allows it; add a replica first."),
	}
}
