// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"d3os.com/d3os-operator/internal/health"
	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/chaos/fault"
	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness"
)

// Lives are successive processes of the operator. Each process ends at one of its side effects.
type Lives struct {
	Skip  int            // number of side effects that each life completes before it ends; 0 in the full form of a test
	Begun int            // number of lives so far
	Ends  map[string]int // number of ends, by side effect
}

// Life is one process of the operator.
type Life struct {
	*fault.Process

	mu    sync.Mutex
	skip  int
	where string
}

// Next begins another life.
func (l *Lives) Next() *Life {
	if l.Begun++; l.Ends == nil {
		l.Ends = map[string]int{}
	}
	return &Life{Process: fault.New(), skip: l.Skip}
}

// Due counts side effects, and reports whether the life ends at the present one.
func (l *Life) Due(effect string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.skip--; l.skip >= 0 {
		return false
	}
	l.where = effect
	return true
}

// End records that the life ends at this side effect, regardless of the number of effects before it. It returns true.
func (l *Life) End(effect string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.where = effect
	return true
}

// Dead reports whether the life has ended.
func (l *Life) Dead() bool { return IsDead(l.Process) }

// IsDead reports whether a process has crashed.
func IsDead(p *fault.Process) bool {
	select {
	case <-p.Crashed():
		return true
	default:
		return false
	}
}

// Live starts operators one after the other, until holds returns nil before the present operator has crashed. begin starts an operator.
func (l *Lives) Live(s *Stage, within time.Duration, begin func() (*Life, *Operator), holds func() error) {
	s.Helper()
	began, lives := time.Now(), l.Begun
	for end := began.Add(within); time.Now().Before(end); {
		life, op := begin()
		err := s.Within(time.Until(end), func() error {
			if life.Dead() {
				return nil
			}
			return holds()
		})
		op.Stop()
		switch {
		case err != nil:
			s.Fatalf("the condition does not hold after %d lives (ends by effect: %v): %v", l.Begun-lives, l.Ends, err)
		case !life.Dead():
			s.Logf("the condition holds after %s and %d lives (ends by effect, all calls: %v)", time.Since(began).Round(10*time.Millisecond), l.Begun-lives, l.Ends)
			return
		}
		life.mu.Lock()
		l.Ends[life.where]++
		life.mu.Unlock()
	}
	s.Fatalf("the condition does not hold within %s and %d lives (ends by effect: %v)", within, l.Begun-lives, l.Ends)
}

// Crashes are the ways in which an operator ends at a write: before the request, after the write, or after the write
// with its answer lost.
var Crashes = map[string]fault.Action{"before": fault.CrashBefore, "after": fault.CrashAfter, "lost": fault.CrashLost}

// CrashAt stops op (unless nil), starts an operator that crashes at a write that matches the rule, and calls act. After the crash, it
// starts the next operator and returns it.
func (s *Stage) CrashAt(op *Operator, start func(...func(*rest.Config, *manager.Options)) *Operator, rule *fault.Rule, act func()) *Operator {
	s.Helper()
	if op != nil {
		op.Stop()
	}
	process := fault.New()
	process.Rule(rule)
	op = start(func(config *rest.Config, _ *manager.Options) { config.Wrap(process.Wrap) })
	act()
	s.Eventually("the operator crashes", func() bool { return IsDead(process) })
	op.Stop()
	return start()
}

// plugin is the kubectl plugin. The first test that needs it builds it.
type plugin struct {
	once sync.Once
	path string
	err  error
}

// Screens are the outputs of the commands that show why a resource is not healthy.
type Screens struct {
	Get      string // the first 120 characters of MESSAGE in kubectl get
	Describe string // the first 120 characters of the first condition's message in kubectl describe
	Why      string // the first two lines of kubectl dataservice why
}

// wide is the width of a terminal in characters.
const wide = 120

var firstMessage = regexp.MustCompile(`(?m)^ +Message: +(.*)$`)

// Screens runs kubectl get, kubectl describe and kubectl dataservice why. kind is a name that kubectl and the plugin know.
func (s *Stage) Screens(kind, name string) (Screens, error) {
	s.Helper()
	s.Suite.plugin.once.Do(func() {
		dir, err := os.MkdirTemp("", "d3os-plugin-")
		s.Suite.plugin.path = filepath.Join(dir, "kubectl-dataservice")
		s.Suite.plugin.err = errors.Join(err, cluster.BuildPlugin(s.Ctx, s.Suite.plugin.path))
	})
	s.Must(s.Suite.plugin.err)
	kubectl := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl")
	got, err1 := s.shell(0, kubectl, "get", kind+"clusters", name)
	described, err2 := s.shell(0, kubectl, "describe", kind+"clusters", name)
	why, err3 := s.shell(1, s.Suite.plugin.path, "why", kind+"/"+name)
	if err := errors.Join(err1, err2, err3); err != nil {
		return Screens{}, err
	}
	shown := Screens{Why: strings.Join(strings.SplitN(why, "\n", 3)[:2], "\n")}
	if header, row, _ := strings.Cut(got, "\n"); strings.Contains(header, "MESSAGE") && len(row) > strings.Index(header, "MESSAGE") {
		row = row[strings.Index(header, "MESSAGE"):]
		shown.Get = health.Clip(strings.TrimSpace(row[:max(0, strings.LastIndex(strings.TrimSpace(row), " "))]), wide) // without the column AGE
	}
	if found := firstMessage.FindStringSubmatch(described); found != nil {
		shown.Describe = health.Clip(found[1], wide)
	}
	return shown, nil
}

// Name returns an error unless each of the three outputs mentions all words.
func (shown Screens) Name(words ...string) error {
	return errors.Join(harness.Mentions(shown.Get, words...), harness.Mentions(shown.Describe, words...), harness.Mentions(shown.Why, words...))
}

func (shown Screens) String() string {
	return "get      " + shown.Get + "\ndescribe " + shown.Describe + "\nwhy      " + strings.ReplaceAll(shown.Why, "\n", "\n         ")
}

// Names fails the test unless kubectl get, kubectl describe and kubectl dataservice why name the cause of a fault. It logs the outputs.
func (s *Stage) Names(kind, name, cause string, words ...string) {
	s.Helper()
	var shown Screens
	began := time.Now()
	err := s.Within(s.Suite.Patience(), func() (err error) {
		if shown, err = s.Screens(kind, name); err != nil {
			return err
		}
		return shown.Name(words...)
	})
	s.Logf("%s, after %.1f s:\n%s", cause, time.Since(began).Seconds(), shown)
	if err != nil {
		s.Errorf("%s: %v", cause, err)
	}
}

// shell runs a program with the stage's namespace, and returns its output. It returns an error unless the exit code is code.
func (s *Stage) shell(code int, program string, args ...string) (string, error) {
	run := exec.CommandContext(s.Ctx, program, append(args, "--namespace", s.Namespace)...) // #nosec G204 -- the tests' own arguments
	run.Env = append(os.Environ(), "KUBECONFIG="+s.Suite.Kubeconfig)
	out, err := run.CombinedOutput()
	if run.ProcessState == nil {
		return "", fmt.Errorf("run %s: %w", program, err)
	}
	if got := run.ProcessState.ExitCode(); got != code {
		return "", fmt.Errorf("%s ends with code %d, not with %d:\n%s", strings.Join(args, " "), got, code, out)
	}
	return string(out), nil
}
