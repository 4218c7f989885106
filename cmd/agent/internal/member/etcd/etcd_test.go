// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/cmd/agent/internal/member"
)

func serverOf(t *testing.T, change func(*Server)) *Server {
	t.Helper()
	given := Server{Pod: "etcd-1", UID: "uid", Namespace: "data", IP: "10.0.0.1", Domain: "etcd-headless.data.svc", Pods: 9, Program: "etcd"}
	change(&given)
	s, err := New(given)
	assert.NilError(t, err)
	return s
}

// program writes a program that prints a version of etcd.
func program(t *testing.T, version string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "etcd")
	assert.NilError(t, os.WriteFile(file, []byte("#!/bin/sh\necho 'etcd Version: "+version+"'\n"), 0o700))
	return file
}

// The name of the image may have a digest instead of a version, so the agent reads the version from the image's program. It refuses an
// image whose etcd has another minor version than the spec.
func TestImageMustHaveTheVersion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ has, wanted, err string }{
		"the same":        {"3.6.16", "3.6.16", ""},
		"another patch":   {"3.6.11", "3.6.16", ""},
		"older":           {"3.5.35", "3.6.16", "the image has etcd 3.5, but spec.version is 3.6.16"},
		"much newer":      {"3.6.16", "3.4.44", "the image has etcd 3.6, but spec.version is 3.4.44"},
		"ten of a minor":  {"3.1.0", "3.10.0", "the image has etcd 3.1, but"},
		"unknown version": {"unknown", "3.6.16", ""},
	} {
		s := serverOf(t, func(s *Server) { s.Program = program(t, c.has) })
		if err := s.CheckVersion(c.wanted); c.err == "" {
			assert.NilError(t, err, name)
		} else {
			assert.ErrorContains(t, err, c.err, name)
		}
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	joined := []member.Listed{
		{ID: "a", Name: "etcd-0", PeerURLs: []string{"http://etcd-0:2380"}}, {ID: "b", PeerURLs: []string{"http://etcd-1:2380"}, Learner: true},
	}
	for name, c := range map[string]struct {
		version string
		change  func(*Server)
		start   member.Verb
		ticket  string
		has     []string
		hasNot  []string
	}{
		"as it is": {"3.6.16", func(*Server) {}, "", "", []string{
			"--name=etcd-1", "--listen-client-urls=http://10.0.0.1:2379,http://127.0.0.1:2379", "--listen-metrics-urls=http://10.0.0.1:2381,http://127.0.0.1:2381",
			"--initial-advertise-peer-urls=http://etcd-1.etcd-headless.data.svc:2380", "--advertise-client-urls=http://etcd-1.etcd-headless.data.svc:2379",
			"--initial-cluster-state=existing",
		}, []string{"--initial-cluster=", "--force-new-cluster", "tls", "cert", "--logger"}},
		"seed": {"3.6.16", func(*Server) {}, member.Seed, "seed", []string{
			"--initial-cluster-state=new", "--initial-cluster=etcd-1=http://etcd-1.etcd-headless.data.svc:2380", "--initial-cluster-token=data/etcd/uid",
		}, nil},
		"seed with a token": {"3.6.16", func(*Server) {}, member.Seed, "seed:x", []string{"--initial-cluster-token=data/etcd/x"}, nil},
		"join": {"3.6.16", func(*Server) {}, member.Join, "join:b", []string{
			"--initial-cluster-state=existing", "--initial-cluster=etcd-0=http://etcd-0:2380,etcd-1=http://etcd-1:2380",
		}, nil},
		"force":       {"3.6.16", func(*Server) {}, member.Force, "force:1", []string{"--force-new-cluster"}, []string{"--initial-cluster-state"}},
		"flags":       {"3.6.16", func(s *Server) { s.Flags = []string{"--log-level=debug"} }, "", "", []string{"--log-level=debug"}, nil},
		"IPv6":        {"3.6.16", func(s *Server) { s.IP = "fd00::1" }, "", "", []string{"--listen-peer-urls=http://[fd00::1]:2380,http://127.0.0.1:2380"}, nil},
		"loopback":    {"3.6.16", func(s *Server) { s.IP = "127.1.0.2" }, "", "", []string{"--listen-peer-urls=http://127.1.0.2:2380"}, nil},
		"encrypted":   {"3.6.16", encrypt, "", "", []string{"--client-cert-auth", "--peer-client-cert-auth", "--cert-file=/tls/server/tls.crt", "--peer-trusted-ca-file=/tls/peer/ca.crt", "--peer-skip-client-san-verification"}, []string{"=http://etcd", "--experimental-peer"}},
		"encrypted 5": {"3.5.35", encrypt, "", "", []string{"--experimental-peer-skip-client-san-verification"}, []string{"--peer-skip"}},
		"encrypted 4": {"3.4.23", encrypt, "", "", []string{"--logger=zap"}, []string{"skip-client-san"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serverOf(t, func(s *Server) { s.Program = program(t, c.version); c.change(s) })
			ticket, err := member.ParseTicket(c.ticket)
			assert.NilError(t, err)
			_, argv, env, err := s.Command(member.Decision{Start: c.start, Members: joined}, ticket, filepath.Join(t.TempDir(), "etcd"))
			assert.NilError(t, err)
			for _, want := range c.has {
				if !slices.Contains(argv, want) {
					t.Errorf("%s is missing in %v", want, argv)
				}
			}
			for _, unwanted := range c.hasNot {
				if strings.Contains(strings.Join(argv[1:], " "), " "+unwanted) {
					t.Errorf("%s is in %v", unwanted, argv)
				}
			}
			if slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, "ETCD_") }) {
				t.Errorf("variables for etcd are passed on: %v", env)
			}
		})
	}
}

func encrypt(s *Server) { s.ServerTLS, s.PeerTLS = "/tls/server", "/tls/peer" }

func TestMistakes(t *testing.T) {
	t.Parallel()
	good := Server{Pod: "etcd-1", Namespace: "data", IP: "10.0.0.1", Domain: "d", Pods: 9}
	for _, change := range []func(*Server){
		func(s *Server) { s.Pod = "etcd" }, func(s *Server) { s.Pod = "etcd-x" }, func(s *Server) { s.IP = "" }, func(s *Server) { s.Domain = "" },
		func(s *Server) { s.Namespace = "" }, func(s *Server) { s.Pods = 0 },
	} {
		s := good
		change(&s)
		if _, err := New(s); err == nil {
			t.Errorf("New accepts %+v", s)
		}
	}
}

// Each file of a real etcd's log identifies the cluster and the member. A damaged file does not, nor does a folder without a log.
func TestDataOfARealServer(t *testing.T) {
	t.Parallel()
	tools := os.Getenv("TOOLS")
	if tools == "" {
		tools = "../../../../../bin/tools"
	}
	program, err := filepath.Abs(filepath.Join(tools, "etcd"))
	assert.NilError(t, err)
	address := fmt.Sprintf("127.83.%d.%d", os.Getpid()>>8&0xff, os.Getpid()&0xff) // each run of the tests uses another address
	s := serverOf(t, func(s *Server) {
		s.Pod, s.IP, s.Program = "etcd-0", address, program
		s.Flags = []string{"--log-level=error"}
	})
	folder := filepath.Join(t.TempDir(), "etcd")
	if data := s.Data(folder); data != (member.Data{}) {
		t.Errorf("a missing folder yields %+v", data)
	}
	program, argv, env, err := s.Command(member.Decision{Start: member.Seed}, member.Ticket{Text: "seed", Verb: member.Seed}, folder)
	assert.NilError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	process := exec.CommandContext(ctx, program, argv[1:]...)
	process.Env = env
	if err := process.Start(); err != nil {
		t.Fatalf("start etcd (TOOLS must name its folder): %v", err)
	}
	client, err := s.client()
	assert.NilError(t, err)
	var answer *member.Answer
	for ctx.Err() == nil && (answer == nil || len(answer.Members) == 0 || answer.Members[0].Name == "") {
		answer, err = ask(ctx, client, "http://"+address+":2380")
	}
	assert.NilError(t, err)
	data := s.Data(folder)
	if want := (member.Identity{Cluster: answer.Cluster, Member: answer.Members[0].ID}); !data.Exists || data.Identity != want {
		t.Errorf("the data has the identity %+v, want etcd's %+v", data, want)
	}
	for range 20 { // adds records to the log
		body := strings.NewReader(`{"key": "YQ==", "value": "` + strings.Repeat("YWJj", 20) + `"}`)
		response, err := client.Post("http://"+address+":2379/v3/kv/put", "application/json", body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatal(response, err)
		}
		_ = response.Body.Close() // the test needs no more of the response
	}
	assert.NilError(t, process.Process.Kill())
	_ = process.Wait() // it was killed
	logs, err := filepath.Glob(filepath.Join(folder, "member", "wal", "*.wal"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("%v %v", logs, err)
	}
	damage(t, s, folder, logs[0])
	for _, size := range []int64{0, 7, 20, 40} {
		assert.NilError(t, os.Truncate(logs[0], size))
		if data := s.Data(folder); !data.Exists || data.Problem == "" {
			t.Errorf("a log of %d bytes yields %+v", size, data)
		}
	}
	assert.NilError(t, os.Remove(logs[0]))
	if data := s.Data(folder); data.Exists || !data.Leftovers {
		t.Errorf("a folder without a log yields %+v", data)
	}
}

// damage inverts each used byte of a real log, and checks that Inspect reports the damage. Inspect must accept a log with an incomplete
// end.
func damage(t *testing.T, s *Server, folder, log string) {
	t.Helper()
	whole, err := os.ReadFile(log)
	assert.NilError(t, err)
	used := len(bytes.TrimRight(whole, "\x00"))
	try := func(change func(text []byte) []byte) string {
		// Keep only 128 KiB of the unused space, to save time.
		text := change(append(slices.Clone(whole[:used]), make([]byte, 1<<17)...))
		assert.NilError(t, os.WriteFile(log, text, 0o600))
		found, _ := s.Inspect(folder)
		return found
	}
	if found := try(func(text []byte) []byte { return text }); found != "" {
		t.Errorf("Inspect reports damage of a whole log: %s", found)
	}
	filling, last := map[int]bool{}, 0
	for at := 0; at < used; {
		last = at
		size, padding := sizes(binary.LittleEndian.Uint64(whole[at:]))
		for i := range padding {
			filling[at+8+int(size+i)] = true
		}
		at += int(8 + size + padding)
	}
	missed, step := 0, 1 // in the short form (make test), only each seventh byte is inverted
	if testing.Short() {
		step = 7
	}
	for at := 0; at < used; at += step {
		// Unless two records follow a damaged length, nothing shows that the length is damaged.
		if found := try(func(text []byte) []byte { text[at] ^= 0xff; return text }); found == "" && !filling[at] && at < last-256 {
			missed++
		}
	}
	if missed > 0 {
		t.Errorf("%d of %d inverted bytes are not found", missed, used)
	}
	t.Logf("of %d bytes of a log, one in %d was inverted", used, step)
	for at := 0; at < used; at += 5 * step {
		if found := try(func(text []byte) []byte { return text[:at] }); found != "" {
			t.Errorf("Inspect reports damage of a log that is cut to %d bytes: %s", at, found)
		}
	}
	for at := 0; at < used; at += sector {
		if found := try(func(text []byte) []byte { clear(text[at:]); return text }); found != "" {
			t.Errorf("Inspect reports damage of a log that is written up to byte %d: %s", at, found)
		}
	}
	assert.NilError(t, os.WriteFile(log, whole, 0o600))
}

// readIdentity neither panics nor hangs, whatever the file contains.
func FuzzReadIdentity(f *testing.F) {
	f.Add([]byte{4, 0, 0, 0, 0, 0, 0, 0x84, 8, 4, 16, 0, 0, 0, 0, 0})
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, data []byte) {
		file := filepath.Join(t.TempDir(), "0.wal")
		assert.NilError(t, os.WriteFile(file, data, 0o600))
		if id, err := readIdentity(file); err == nil && (id.Cluster == "" || id.Member == "") {
			t.Errorf("%x is %+v", data, id)
		}
	})
}
