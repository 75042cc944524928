// Package control is what karp-sandbox and its users say to each other: the state file of a sandbox and the small HTTP
// interface by which its components are stopped, killed and started again.
//
// A sandbox is one folder. The folder holds everything the sandbox owns (certificates, data, logs) and a file named
// state.json, which says how to reach it. Where the folder is gone there is no sandbox.
package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Version of state.json and of the HTTP interface. A client refuses another one.
const Version = 1

// Component names, in the order in which they start.
const (
	Etcd              = "etcd"
	APIServer         = "apiserver"
	ControllerManager = "controller-manager"
	Scheduler         = "scheduler"
	Kwok              = "kwok"
	SimAWS            = "simaws"
)

// Components lists every component in the order in which they start.
func Components() []string {
	return []string{Etcd, APIServer, ControllerManager, Scheduler, Kwok, SimAWS}
}

// State of one component.
type State string

// The states of a component. Only Failed is a fault: every other one was asked for.
const (
	Pending  State = "pending"  // not started yet
	Starting State = "starting" // process runs, its endpoint does not answer yet
	Running  State = "running"  // its endpoint has answered
	Paused   State = "paused"   // suspended on request (SIGSTOP)
	Stopped  State = "stopped"  // ended on request by SIGTERM
	Killed   State = "killed"   // ended on request by SIGKILL
	Failed   State = "failed"   // ended by itself, or never became ready
)

// Verb is something that can be asked of one component.
type Verb string

// The verbs. Each returns when it is done: Start, Restart and Resume when the component is ready again.
const (
	Start   Verb = "start"
	Stop    Verb = "stop"    // SIGTERM, then SIGKILL after a while
	Kill    Verb = "kill"    // SIGKILL
	Restart Verb = "restart" // Stop (if it runs), then Start
	Pause   Verb = "pause"   // SIGSTOP: the process hangs, its connections stay open
	Resume  Verb = "resume"  // SIGCONT
)

// Verbs lists all verbs.
func Verbs() []Verb { return []Verb{Start, Stop, Kill, Restart, Pause, Resume} }

// Component is the state of one component.
type Component struct {
	Name    string  `json:"name"`
	State   State   `json:"state"`
	PID     int     `json:"pid,omitempty"`
	URL     string  `json:"url,omitempty"`
	Starts  int     `json:"starts"`            // how often its process was started
	Seconds float64 `json:"seconds,omitempty"` // from start to ready, last time
	Memory  int64   `json:"memory,omitempty"`  // bytes of memory of its own now; 0 where the system does not tell
	Exit    string  `json:"exit,omitempty"`    // how the process ended, if it did
	Log     string  `json:"log"`               // path of its log file
}

// Sandbox is the content of state.json and the answer to a status request.
type Sandbox struct {
	Version     int         `json:"version"`
	Name        string      `json:"name"`
	Dir         string      `json:"dir"`
	PID         int         `json:"pid"` // of the supervisor
	Ready       bool        `json:"ready"`
	Started     time.Time   `json:"started"`
	Seconds     float64     `json:"seconds,omitempty"` // from start to ready
	Control     string      `json:"control"`           // URL of the control interface
	Token       string      `json:"token,omitempty"`   // bearer token of the control interface; only in state.json
	Kubeconfig  string      `json:"kubeconfig,omitempty"`
	APIServer   string      `json:"apiServer,omitempty"` // URL
	SimAWS      string      `json:"simaws,omitempty"`    // URL
	Env         []string    `json:"env,omitempty"`       // NAME=value, what karp and the AWS SDK need
	KubeVersion string      `json:"kubeVersion"`
	Components  []Component `json:"components"`
}

// Component returns the named component.
func (s *Sandbox) Component(name string) (Component, bool) {
	i := slices.IndexFunc(s.Components, func(c Component) bool { return c.Name == name })
	if i < 0 {
		return Component{}, false
	}
	return s.Components[i], true
}

// Failures names the components in state Failed with the reason, nil when there is none.
func (s *Sandbox) Failures() []string {
	var out []string
	for _, c := range s.Components {
		if c.State == Failed {
			out = append(out, fmt.Sprintf("%s: %s (log: %s)", c.Name, c.Exit, c.Log))
		}
	}
	return out
}

// StatePath is the state file of the sandbox in dir.
func StatePath(dir string) string { return filepath.Join(dir, "state.json") }

// ErrNone says that there is no sandbox in the folder.
var ErrNone = errors.New("no sandbox here")

// Load reads the state file of the sandbox in dir. It wraps ErrNone when there is none.
func Load(dir string) (*Sandbox, error) {
	raw, err := os.ReadFile(StatePath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading %s: %w", StatePath(dir), ErrNone)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the state of the sandbox: %w", err)
	}
	s := &Sandbox{}
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, fmt.Errorf("reading %s: %w", StatePath(dir), err)
	}
	if s.Version != Version {
		return nil, fmt.Errorf("reading %s: version %d, this program speaks %d; stop it with the karp-sandbox that started it",
			StatePath(dir), s.Version, Version)
	}
	return s, nil
}

// Save writes the state file of s atomically, readable by its owner only.
func (s *Sandbox) Save() error {
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the state of the sandbox: %w", err)
	}
	tmp := StatePath(s.Dir) + ".new"
	if err := os.WriteFile(tmp, append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the state of the sandbox: %w", err)
	}
	if err := os.Rename(tmp, StatePath(s.Dir)); err != nil {
		return fmt.Errorf("writing the state of the sandbox: %w", err)
	}
	return nil
}

// Base is the folder that holds the sandboxes of this user: karp-sandbox-UID below the system's temporary folder.
func Base() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("karp-sandbox-%d", os.Getuid()))
}

// CheckName reports whether name can name a sandbox.
func CheckName(name string) error {
	valid := func(r rune) bool {
		return r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	if name == "" || len(name) > 40 || strings.ContainsFunc(name, func(r rune) bool { return !valid(r) }) {
		return fmt.Errorf("invalid sandbox name %q: use up to 40 letters, digits, - and _", name)
	}
	return nil
}

// Names lists the sandboxes in Base, including those whose supervisor is gone.
func Names() ([]string, error) {
	entries, err := os.ReadDir(Base())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing sandboxes: %w", err)
	}
	var names []string
	for _, e := range entries {
		if CheckName(e.Name()) == nil {
			names = append(names, e.Name())
		}
	}
	return names, nil
}
