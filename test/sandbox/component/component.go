// Package component holds the entry points of the processes of a sandbox. Each runs until it is told to end by SIGTERM or
// SIGINT, and returns the exit code.
package component

import (
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/karp-sh/karp/test/cluster/control"
)

// Run runs the named component with its arguments and returns the exit code.
func Run(name string, args []string, stderr io.Writer) int {
	switch name {
	case control.Etcd:
		return report(name, runEtcd(args), stderr)
	case control.APIServer:
		return command(apiserver.NewAPIServerCommand(), args)
	case control.ControllerManager:
		return command(controllermanager.NewControllerManagerCommand(), args)
	case control.Scheduler:
		return command(scheduler.NewSchedulerCommand(), args)
	case control.Kwok:
		return report(name, runKwok(args), stderr)
	case control.SimAWS:
		return report(name, runSimAWS(args), stderr)
	}
	return report(name, control.ErrUnknown, stderr)
}

func command(cmd *cobra.Command, args []string) int {
	cmd.SetArgs(args)
	return cli.Run(cmd)
}

func report(name string, err error, stderr io.Writer) int {
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

// KubeVersion is the version of the Kubernetes components, such as v1.37.2. It is an error when the program was built
// without its stamp: the API server would call itself v0.0.0-master and clients would behave differently.
func KubeVersion() (string, error) {
	v := version.Get().GitVersion
	if strings.HasPrefix(v, "v0.0.0") || strings.Contains(v, "$") {
		return "", fmt.Errorf("this karp-sandbox was built without the version of Kubernetes (it says %s): build it with `make sandbox`, "+
			"or in test/sandbox with `go run ./build`", v)
	}
	return v, nil
}

// parse reads args into fs, which has to be named after the component; there must be no others.
func parse(fs *flag.FlagSet, args []string) error {
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	return nil
}
