// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"testing"
)

// exploration walks through the states of a world, nearest first, and looks for lost transactions.
type exploration struct {
	decide Decider
	broken rules
	most   int
	seed   maphash.Seed
	seen   map[uint64]bool
	parent []int32
	how    []string
	queue  []world
	number []int32
	epochs uint8
	harm   []string
	rests  int32 // every how many states it is looked at whether all is well without further faults
}

// Decider is Decide, or a control that breaks it.
type Decider func(Want, Observation) Decision

var wanted = Want{Replicas: size, WhenAlone: Write, MaxVoters: 2}

func explore(first world, most int, rests int32, decide Decider, broken rules) *exploration {
	e := &exploration{decide: decide, broken: broken, most: most, rests: rests, seed: maphash.MakeSeed(), seen: map[uint64]bool{}}
	e.add(first, 0, "begins", "")
	for head := 0; head < len(e.queue) && len(e.how) < most && e.harm == nil; head++ {
		w, number := e.queue[head], e.number[head]
		visit := func(how string, next world, harm string) { e.add(next, number, how, harm) }
		e.operator(w, number)
		w.moves(broken, visit)
		w.faults(broken, visit)
	}
	return e
}

func (e *exploration) add(w world, from int32, how, harm string) {
	hash := maphash.Comparable(e.seed, w)
	if e.harm != nil || e.seen[hash] && harm == "" {
		return
	}
	e.seen[hash] = true
	e.epochs = max(e.epochs, w.record.epoch)
	e.parent, e.how = append(e.parent, from), append(e.how, how)
	number := int32(len(e.how) - 1)
	if harm == "" {
		harm = w.lost()
	}
	if harm == "" && number%e.rests == 0 {
		harm = w.stuck()
	}
	if harm != "" {
		for at := number; at > 0; at = e.parent[at] {
			e.harm = append([]string{e.how[at]}, e.harm...)
		}
		e.harm = append(e.harm, fmt.Sprintf("%+v", w), harm)
		return
	}
	e.queue, e.number = append(e.queue, w), append(e.number, number)
}

// lost says which acknowledged transaction the record's primary has not. Where its volume is lost, all copies of a voter
// together must have it.
func (w *world) lost() string {
	if w.late != "" || !w.record.formed {
		return w.late
	}
	p := w.record.primary
	if w.members[p.ordinal].server == p.server {
		if missing := w.acked &^ w.members[p.ordinal].received; missing != 0 {
			return fmt.Sprintf("the primary has not %b, which was acknowledged", missing)
		}
	}
	return ""
}

// want is what the resource asks for.
func (w *world) want() Want {
	want := wanted
	if w.to > 0 {
		want.Switch, want.To = true, int(w.to-1)
	}
	return want
}

// stuck says why a world without faults does not come to rest with all members well, though it could. The last thing that
// was known may be that data is gone.
func (w world) stuck() string {
	w.held = mStep{}
	for i := range w.members {
		w.members[i].up = true
	}
	want := w.want()
	d := settle(&w, want)
	p := w.record.primary
	switch {
	case d.Model.State == StateHealthy && len(w.record.real().Voters) == 2 && (w.to == 0 || w.record.primary.ordinal == w.to-1):
		return ""
	case w.record.formed && w.members[p.ordinal].server != p.server && (d.Model.State == StateLost || d.Model.State == StateQuorumLost):
		return "" // a person must act
	case !w.record.formed && d.Model.State == StateRecordLost:
		return "" // the only copy was lost before it was recorded
	}
	return fmt.Sprintf("it comes to rest with %+v: %+v", d.Model, w)
}

// operator takes the step of a pass at once, or holds it back and takes it later, without a proof.
func (e *exploration) operator(w world, number int32) {
	if w.record.epoch < 7 && w.record.revision < 60 {
		if d := e.decide(w.want(), w.view()); d.Step != nil {
			step := pack(d.Step)
			next := w
			if err := next.take(step, e.broken); err == nil && next != w {
				e.add(next, number, d.Step.Message, "")
			} else if err != nil && !errors.Is(err, errRefused) {
				panic(err)
			}
			if w.left.stale > 0 && w.held.action == "" {
				next := w
				next.left.stale--
				next.held = step
				e.add(next, number, "held back: "+d.Step.Message, "")
			}
		}
	}
	if w.held.action != "" {
		next := w
		next.held = mStep{}
		if err := next.take(w.held, e.broken); err == nil {
			e.add(next, number, "late: "+string(w.held.action), "")
		}
	}
}

// settle lets a world without faults come to rest, and returns what the operator says then.
func settle(w *world, want Want) Decision {
	w.links, w.unseen = 0, 0
	var d Decision
	for range 400 {
		before := *w
		for {
			moved := false
			w.moves(rules{}, func(_ string, next world, _ string) {
				if !moved {
					*w, moved = next, true
				}
			})
			if !moved {
				break
			}
		}
		if d = Decide(want, w.view()); d.Step != nil {
			_ = w.take(pack(d.Step), rules{})
		}
		if *w == before {
			break
		}
	}
	return d
}

// formed is a world of three members that are well.
func formed(t *testing.T, voters int, left budget) world {
	t.Helper()
	w, want := world{}, wanted
	want.MaxVoters = voters
	for i := range w.members {
		w.members[i].up = true
	}
	if d := settle(&w, want); d.Model.State != StateHealthy || len(w.record.real().Voters) != voters {
		t.Fatalf("%+v: %+v", d, w)
	}
	w.left = left
	return w
}

// Every story of a few faults, delays and writes, as deep as the bounds allow.
func TestExplore(t *testing.T) {
	t.Parallel()
	fresh := world{left: budget{crashes: 1, stale: 1, losses: 1, writes: 1}}
	most := 40_000
	begins := map[string]world{
		"birth":                    fresh,
		"crashes":                  formed(t, 2, budget{crashes: 2, writes: 2}),
		"partitions":               formed(t, 2, budget{cuts: 2, writes: 2}),
		"a late step":              formed(t, 2, budget{crashes: 1, cuts: 1, stale: 1, writes: 2}),
		"a lost volume":            formed(t, 2, budget{losses: 1, crashes: 1, writes: 2}),
		"a lost volume, cut links": formed(t, 2, budget{losses: 1, cuts: 1, writes: 2}),
	}
	for _, name := range []string{"a switchover, crashes", "a switchover, partitions", "a switchover, a late step"} {
		left := map[string]budget{"a switchover, crashes": {crashes: 2, writes: 2}, "a switchover, partitions": {cuts: 2, writes: 2}, "a switchover, a late step": {crashes: 1, stale: 1, writes: 2}}[name]
		w := formed(t, 2, left)
		w.to = 3
		begins[name] = w
	}
	if os.Getenv("MYSQL_MODEL") == "full" {
		most = 2_000_000
		begins["all of it"] = formed(t, 2, budget{crashes: 2, cuts: 2, losses: 1, stale: 1, writes: 3})
		w := begins["all of it"]
		w.to = 2
		begins["a switchover, all of it"] = w
	}
	for name, w := range begins {
		t.Run(name, func(t *testing.T) {
			if most < 1_000_000 {
				t.Parallel()
			}
			e := explore(w, most, 20, Decide, rules{})
			for _, line := range e.harm {
				t.Log(line)
			}
			if e.harm != nil {
				t.Error("an acknowledged transaction is lost")
			}
			t.Logf("%d states, up to epoch %d", len(e.how), e.epochs)
		})
	}
}
