package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// options say what is released.
type options struct {
	version, commit string
	root, out       string
	key             string
	platforms       []string
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

var semver = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

func run(args []string, out io.Writer) error {
	o, platforms := options{}, ""
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&o.version, "version", "", "version to release, as v1.2.3")
	flags.StringVar(&o.root, "root", ".", "folder of the repository")
	flags.StringVar(&o.out, "out", "dist", "folder for the results; what a former run left there is replaced")
	flags.StringVar(&o.key, "key", "", "PEM file of the ECDSA P-256 key that signs; \"test\" makes one for this run")
	flags.StringVar(&platforms, "platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64", "what to build for")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if !semver.MatchString(o.version) {
		return fmt.Errorf("-version %q is not like v1.2.3", o.version)
	}
	o.platforms = strings.Split(platforms, ",")
	commit, err := exec.Command("git", "-C", o.root, "rev-parse", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("reading the commit of %s: %w", o.root, err)
	}
	o.commit = strings.TrimSpace(string(commit))
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	steps := map[string]func(options) ([]string, error){"archives": archives, "image": images}
	var products []string
	switch what := flags.Arg(0); what {
	case "archives", "image":
		products, err = steps[what](o)
	case "all":
		for _, what := range []string{"archives", "image"} {
			made, stepErr := steps[what](o)
			products, err = append(products, made...), errors.Join(err, stepErr)
		}
	default:
		return fmt.Errorf("say what to make: archives, image or all")
	}
	if err != nil {
		return err
	}
	if err := seal(o, products); err != nil {
		return err
	}
	for _, p := range products {
		fmt.Fprintln(out, filepath.Join(o.out, p))
	}
	return nil
}

// build compiles a program for one platform and returns its file: without C, paths, build ids or times, so that two builds are equal.
func build(o options, program, platform string) (string, error) {
	goos, goarch, ok := strings.Cut(platform, "/")
	if !ok {
		return "", fmt.Errorf("platform %q is not like linux/amd64", platform)
	}
	file := filepath.Join(o.out, "build", goos+"_"+goarch, filepath.Base(program))
	if goos == "windows" {
		file += ".exe"
	}
	absolute, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid= -X main.version="+o.version+" -X main.commit="+o.commit, "-o", absolute, "./cmd/"+program)
	cmd.Dir = o.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+goos, "GOARCH="+goarch)
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s for %s: %w\n%s", program, platform, err, text)
	}
	return file, nil
}
