package agent

// MetricsOptions is what the metrics endpoint serves, for tests.
var MetricsOptions = metricsOptions
