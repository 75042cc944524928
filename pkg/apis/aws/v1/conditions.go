package v1

// Condition types of an EC2NodeClass, beside Ready.
const (
	ConditionAMIsReady                 = "AMIsReady"
	ConditionSubnetsReady              = "SubnetsReady"
	ConditionSecurityGroupsReady       = "SecurityGroupsReady"
	ConditionInstanceProfileReady      = "InstanceProfileReady"
	ConditionPlacementGroupReady       = "PlacementGroupReady"
	ConditionCapacityReservationsReady = "CapacityReservationsReady"
	ConditionValidationSucceeded       = "ValidationSucceeded"
)

// Reasons of the conditions of an EC2NodeClass.
const (
	ReasonAMINotFound                         = "AMINotFound"
	ReasonUnsupportedAlias                    = "UnsupportedAlias"
	ReasonSubnetsNotFound                     = "SubnetsNotFound"
	ReasonSecurityGroupsNotFound              = "SecurityGroupsNotFound"
	ReasonPlacementGroupNotFound              = "PlacementGroupNotFound"
	ReasonPlacementGroupResolutionFailed      = "PlacementGroupResolutionFailed"
	ReasonTagValidationFailed                 = "TagValidationFailed"
	ReasonCreateLaunchTemplateAuthCheckFailed = "CreateLaunchTemplateAuthCheckFailed"
	ReasonCreateFleetAuthCheckFailed          = "CreateFleetAuthCheckFailed"
	ReasonRunInstancesAuthCheckFailed         = "RunInstancesAuthCheckFailed"
	ReasonUserDataSizeLimitExceeded           = "UserDataSizeLimitExceeded"
	ReasonClusterCIDRResolutionFailed         = "ClusterCIDRResolutionFailed"
	ReasonInvalidKubeletConfiguration         = "InvalidKubeletConfiguration"
	ReasonDependenciesNotReady                = "DependenciesNotReady"
)
