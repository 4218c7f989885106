// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcdtest

import (
	"context"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	clientv3 "go.etcd.io/etcd/client/v3"
	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/test/harness/process"
)

// never stands for the return time of a request with an unknown outcome.
const never = int64(24 * time.Hour)

// operation is a request on a shared key.
type operation struct {
	key   string
	write bool
	value string
}

// register is the model of one key for porcupine.
var register = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		for _, o := range history {
			key := o.Input.(operation).key
			byKey[key] = append(byKey[key], o)
		}
		var parts [][]porcupine.Operation
		for _, part := range byKey {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		op := input.(operation)
		if op.write {
			return true, op.value
		}
		return output == state, state
	},
}

// certain simplifies a history. The result is linearizable if and only if the given history is. certain omits a write
// with an unknown outcome if no client read the value. Otherwise the write took effect before the first read of the
// value returned, so the write ends there. Clients write each value only once.
func certain(history []porcupine.Operation) []porcupine.Operation {
	read := map[operation]int64{}
	for _, o := range history {
		if op := o.Input.(operation); !op.write {
			of := operation{key: op.key, write: true, value: o.Output.(string)}
			if at, known := read[of]; !known || o.Return < at {
				read[of] = o.Return
			}
		}
	}
	var all []porcupine.Operation
	for _, o := range history {
		if o.Return == never {
			at, known := read[o.Input.(operation)]
			if !known {
				continue
			}
			o.Return = max(at, o.Call)
		}
		all = append(all, o)
	}
	return all
}

// Verify reports acknowledged keys that do not exist.
func (l *Load) Verify(t testing.TB) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var c *clientv3.Client
	assert.NilError(t, process.Wait(ctx, 20*time.Second, func() (err error) { c, err = l.dial(0); return err }))
	defer c.Close()
	found, err := c.Get(ctx, "once/", clientv3.WithPrefix())
	if err != nil {
		t.Fatalf("read the ledger's keys: %v", err)
	}
	values := map[string]string{}
	for _, kv := range found.Kvs {
		values[string(kv.Key)] = string(kv.Value)
	}
	lost := 0
	for key, value := range l.ledger {
		if values[key] != value {
			lost++
		}
	}
	if lost > 0 || len(l.ledger) == 0 {
		t.Errorf("%d of %d acknowledged keys are lost", lost, len(l.ledger))
	}
}
