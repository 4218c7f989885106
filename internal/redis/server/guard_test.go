// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/internal/redis/server"
)

// answering returns a client of a server that answers every request with a text.
func answering(t *testing.T, answer string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Protocol: 2, DisableIdentity: true, MaxRetries: -1, DialerRetries: 1, ReadTimeout: 10 * time.Second,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			go func() {
				buffer := make([]byte, 4096)
				for {
					n, err := there.Read(buffer)
					if err != nil {
						return
					}
					text := answer
					if strings.Contains(strings.ToLower(string(buffer[:n])), "hello") {
						text = "-ERR unknown command\r\n" // the greeting of the client library
					}
					if _, err := io.WriteString(there, text); err != nil {
						return
					}
				}
			}()
			return server.Conn(here), nil
		},
	})
	t.Cleanup(func() { assert.NilError(t, client.Close()) })
	return client
}

// An announced length is not trusted: the client library would allocate it, which would crash the process.
func TestAnswersThatWouldEndTheOperator(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"a length that no process can allocate": "$9223372036854775800\r\n",
		"a text of 2 GiB":                       "$2147483648\r\n",
		"a list that no process can allocate":   "*9223372036854775800\r\n",
		"a map":                                 "%999999999\r\n",
		"lists in lists":                        strings.Repeat("*1\r\n", 1<<20),
		"long lists in lists":                   strings.Repeat("*1000000\r\n", 100),
		"a line without an end":                 "+" + strings.Repeat("a", 1<<20),
		"a length that is no number":            "$many\r\n",
		"many long texts":                       "*100\r\n" + strings.Repeat("$1000000\r\n"+strings.Repeat("a", 1000000)+"\r\n", 100),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := answering(t, answer).Do(t.Context(), "CLUSTER", "NODES").Result()
			assert.ErrorIs(t, err, server.ErrTooMuch)
		})
	}
}

// Valid answers of Redis pass.
func TestAnswersOfRedis(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 1<<20)
	for answer, want := range map[string]any{
		"+OK\r\n": "OK", ":42\r\n": int64(42), "$5\r\na\r\nb\n\r\n": "a\r\nb\n", "$0\r\n\r\n": "",
		"$1048576\r\n" + text + "\r\n":        text,
		"*3\r\n$1\r\n*\r\n*0\r\n$2\r\n$9\r\n": []any{"*", []any{}, "$9"},
		"*2\r\n$-1\r\n*1\r\n+a\r\n":           []any{nil, []any{"a"}},
	} {
		got, err := answering(t, answer).Do(t.Context(), "ANY").Result()
		assert.NilError(t, err)
		assert.DeepEqual(t, got, want)
	}
}

// The limit applies to each request, not to the connection.
func TestEachRequestHasItsOwnAnswer(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 1<<20)
	client := answering(t, "$1048576\r\n"+text+"\r\n")
	for range 100 {
		_, err := client.Do(t.Context(), "ANY").Result()
		assert.NilError(t, err)
	}
}
