// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// orphan runs in the test binary if FOLDER is set. It starts a process that starts a second process in a new session. It prints both
// process IDs, and waits until it is killed.
func orphan() {
	g, err := NewGuard(os.Getenv("FOLDER"))
	if err == nil {
		_, err = g.Start([]string{"sh", "-c", "setsid sleep 600 & echo $$ $!; wait"}, []string{"PATH=/usr/bin:/bin"}, "/", os.Stdout)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	select {}
}

func TestMain(m *testing.M) {
	if os.Getenv("ORPHAN") != "" {
		orphan()
	}
	os.Exit(m.Run())
}

func TestProcessesEndWithTheTestsProcess(t *testing.T) {
	folder := t.TempDir() + "/pods"
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "ORPHAN=yes", "FOLDER="+folder)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	numbers := strings.Fields(line)
	if err != nil || len(numbers) != 2 {
		t.Fatalf("the orphan printed %q: %v", line, err)
	}
	if alive := alive(numbers); len(alive) != 2 {
		t.Fatalf("of the processes %v only %v run", numbers, alive)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // always an error: the signal ended the process
	err = wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 2*time.Minute, true, func(context.Context) (bool, error) {
		_, err := os.Stat(folder)
		return os.IsNotExist(err) && len(alive(numbers)) == 0, nil
	})
	if err != nil {
		t.Errorf("processes %v still run, or %s still exists: %v", alive(numbers), folder, err)
	}
}

// alive returns the running processes of a list, without zombies.
func alive(numbers []string) []string {
	var found []string
	for _, number := range numbers {
		stat, err := os.ReadFile("/proc/" + number + "/stat")
		if err == nil && !strings.Contains(string(stat), ") Z ") {
			found = append(found, number)
		}
	}
	return found
}

func TestAddressesAreNotGivenTwice(t *testing.T) {
	first, err := ClaimNetwork()
	if err != nil {
		t.Fatal(err)
	}
	defer first.Release() //nolint:errcheck // the end of the process releases it too
	second, err := ClaimNetwork()
	if err != nil {
		t.Fatal(err)
	}
	defer second.Release() //nolint:errcheck // the end of the process releases it too
	seen := map[string]bool{first.Host(): true}
	for range 3000 {
		for _, n := range []*Network{first, second} {
			address := n.Next()
			if seen[address] {
				t.Fatalf("Next returned %s twice", address)
			}
			seen[address] = true
		}
	}
}
