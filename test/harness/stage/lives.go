// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"d3os.com/d3os-operator/internal/manager"
	"d3os.com/d3os-operator/test/chaos/fault"
)

// Lives are processes of the operator, one after the other, each of which ends at one of its effects.
type Lives struct {
	Skip  int            // how many effects each life may have first; 0 in the full form
	Begun int            // how many there were
	Ends  map[string]int // where they ended
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

// Due counts effects, and reports whether the life ends with this one.
func (l *Life) Due(effect string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.skip--; l.skip >= 0 {
		return false
	}
	l.where = effect
	return true
}

// End notes where the life ends, whatever it has counted. It returns true.
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

// Live lets one operator after the other live until a condition holds that outlasts one of them. begin starts the next one.
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
			s.Fatalf("after %d lives, which ended at %v: %v", l.Begun-lives, l.Ends, err)
		case !life.Dead():
			s.Logf("%s, %d lives; all of them so far ended at %v", time.Since(began).Round(10*time.Millisecond), l.Begun-lives, l.Ends)
			return
		}
		life.mu.Lock()
		l.Ends[life.where]++
		life.mu.Unlock()
	}
	s.Fatalf("not within %s and %d lives; they ended at %v", within, l.Begun-lives, l.Ends)
}

// Crashes are the ways in which an operator ends at a write: before it is sent, after it took effect, and with its answer lost.
var Crashes = map[string]fault.Action{"before": fault.CrashBefore, "after": fault.CrashAfter, "lost": fault.CrashLost}

// CrashAt replaces an operator, nil for none, by one that crashes as a test acts, and that one by the next, which it returns.
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
