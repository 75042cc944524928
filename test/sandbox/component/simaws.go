package component

import "errors"

func runSimAWS([]string) error {
	return errors.New("not part of this build yet; leave it away with --kubernetes-only")
}
