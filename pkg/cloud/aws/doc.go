// Package aws talks to AWS: it resolves node classes, knows what can be bought, and launches, finds and terminates instances.
//
// It implements cloud.Provider, cloud.Catalogs and cloud.Classes with the AWS SDK. One file holds one concern. Nothing runs in the
// background: what must be refreshed is listed by Provider.Refreshers, and the caller runs it. A refresh that fails keeps what was known.
package aws
