package cloud

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
)

// Token returns the idempotency token of the launch: a pure function of the identity, so that it survives any crash. It has 52 characters.
func (i Identity) Token() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s|%s|%d", i.ClusterUID, i.ClaimUID, i.Attempt))
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:])
}

// LaunchID returns the value of the identity tag, "<claim UID>/<attempt>".
func (i Identity) LaunchID() string { return fmt.Sprintf("%s/%d", i.ClaimUID, i.Attempt) }
