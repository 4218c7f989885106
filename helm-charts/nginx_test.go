// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package helmcharts_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"d3os.com/d3os-operator/test/harness"
	"d3os.com/d3os-operator/test/harness/process"
)

// loopback is the line of ::1 in /proc/net/if_inet6.
const loopback = "00000000000000000000000000000001 01 80 10 80       lo\n"

// Some settings depend on the pod: the listener for IPv6, the DNS server, the domain of the cluster.
func TestConfigurationOfThePod(t *testing.T) {
	t.Parallel()
	const (
		linkLocal = "fe800000000000000000000000000001 02 40 20 80     eth0\n"
		global    = "fd000000000000000000000000000002 02 40 00 80     eth0\n"
		search    = "search data.svc.cluster.test svc.cluster.test cluster.test\n"
	)
	for name, test := range map[string]struct {
		resolv, ipv6 string
		want         []string
	}{
		"no IPv6 in the kernel": {search + "nameserver 10.96.0.10\n", "", []string{"resolver 10.96.0.10 valid=5s ipv6=off;", `set $cluster_domain ".cluster.test";`}},
		"no IPv6 address":       {search + "nameserver 10.96.0.10\n", loopback + linkLocal, []string{"listen [::]:8080;", "resolver 10.96.0.10 valid=5s ipv6=off;"}},
		"IPv4 and IPv6":         {search + "nameserver 10.96.0.10\n", loopback + global, []string{"listen [::]:8080;", "resolver 10.96.0.10 valid=5s ipv6=on;"}},
		"IPv6 only":             {search + "nameserver fd00:10:96::a\n", loopback + global, []string{"resolver [fd00:10:96::a] valid=5s ipv6=on;"}},
		"several servers":       {"nameserver fe80::1%eth0\nnameserver 10.96.0.10\nnameserver 192.0.2.1\n" + search, "", []string{"resolver 10.96.0.10 valid=5s ipv6=off;"}},
		"no newline, a dot":     {"nameserver 10.96.0.10\nsearch a svc.example.com.", "", []string{"resolver 10.96.0.10 ", `set $cluster_domain ".example.com";`}},
		"nothing":               {"", "", []string{"resolver 127.0.0.1 ", `set $cluster_domain "";`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newConsole(t, "")
			c.write("resolv.conf", test.resolv)
			if test.ipv6 != "" {
				c.write("if_inet6", test.ipv6)
			}
			text := c.enter()
			for _, want := range test.want {
				assert.Check(t, is.Contains(text, want))
			}
			assert.Equal(t, strings.Contains(text, "listen [::]"), test.ipv6 != "", text)
		})
	}
}

// nginx forwards to the present addresses of a Service, and keeps the rest of a path.
func TestConsoleFollowsServices(t *testing.T) {
	t.Parallel()
	c := newConsole(t, "")
	c.start()
	c.until("without a Service, nginx runs", func() error { return c.answers(apiPath, 502, "") })

	first, stop := c.backend(echo("first"))
	second, _ := c.backend(echo("second"))
	c.zone.set(first)
	c.until("a new Service is used", func() error { return c.answers(apiPath, 200, "first /") })
	for path, want := range map[string]string{
		"a/b?c=d&e":      "/a/b?c=d&e",
		"a%20b%2fc%3fd":  "/a%20b/c%3Fd",
		"a%0Ab?c=%0A%20": "/a%0Ab?c=%0A%20",
		"?a=/b":          "/?a=/b",
	} {
		assert.NilError(t, c.answers(apiPath+path, 200, "first "+want))
	}

	stop()
	assert.NilError(t, c.answers(apiPath, 502, ""), "want the 502 of nginx, because the backend has stopped")
	c.zone.set(second)
	c.until("another address is used", func() error { return c.answers(apiPath, 200, "second /") })

	c.zone.set(first, second)
	c.until("both addresses are known", func() error {
		if c.zone.answered() {
			return nil
		}
		return errors.Join(errors.New("nginx has not asked again"), c.answers(apiPath, 200, "second /"))
	})
	for range 10 {
		assert.NilError(t, c.answers(apiPath, 200, "second /"), "a pod of a headless Service has ended")
	}
}

// Where the kernel has IPv6, nginx also answers at IPv6 addresses.
func TestConsoleAnswersOverIPv6(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "[::1]:0")
	if err != nil {
		t.Skipf("this machine has no ::1: %v", err)
	}
	assert.NilError(t, listener.Close())
	c := newConsole(t, "")
	c.write("if_inet6", loopback)
	c.start() // waits for an answer over IPv4
	c.address = c.address6()
	assert.NilError(t, c.answers("/", 200, "the console"))
}

// nginx accepts the headers of single sign-on: 9 KB of cookies in a request, 5 KB of cookies in an answer, and larger headers with a larger
// D3OS_NGINX_HEADER_BUFFER.
func TestConsolePassesLargeHeaders(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		values          string
		cookies, answer int
		want            int
	}{
		"of single sign-on": {"", 9 << 10, 5 << 10, 200},
		"a larger request":  {"", 17 << 10, 1 << 10, 400},
		"a larger answer":   {"", 1 << 10, 17 << 10, 502},
		"larger buffers":    {"env: {D3OS_NGINX_HEADER_BUFFER: 32k}", 17 << 10, 17 << 10, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newConsole(t, test.values)
			c.start()
			address, _ := c.backend(func(w http.ResponseWriter, r *http.Request) {
				for i := range test.answer >> 10 {
					http.SetCookie(w, &http.Cookie{Name: fmt.Sprint("set", i), Value: strings.Repeat("b", 1<<10)})
				}
				fmt.Fprint(w, len(r.Header.Get("Cookie")))
			})
			c.zone.set(address)
			c.until("proxy answers", func() error {
				status, _, _, err := c.get(apiPath, nil)
				if err == nil && status == 502 && !c.zone.answered() {
					err = errors.New("proxy is not known yet")
				}
				return err
			})
			status, body, header, err := c.get(apiPath, http.Header{"Cookie": {strings.Repeat("a", test.cookies)}})
			assert.NilError(t, err)
			assert.Equal(t, status, test.want)
			if status == 200 {
				assert.Equal(t, body, fmt.Sprint(test.cookies))
				assert.Equal(t, len(header.Values("Set-Cookie")), test.answer>>10)
			}
		})
	}
}

// The pod of proxy is replaced several times while clients call it through nginx. After DNS no longer returns the removed pod, the pod
// keeps serving for the pause that the chart sets, so no call fails. After the Service was deleted, calls succeed again within 10 s.
func TestConsoleDuringAnUpdate(t *testing.T) {
	harness.Long(t)
	t.Parallel()
	const requests, again = 2000, 10 * time.Second
	seconds, _ := at(pause(made(t, "microservice", backEndValues("proxy")), "proxy"), "sleep", "seconds").(int64)
	assert.Assert(t, seconds > 0, "proxy has no pause")
	c := newConsole(t, "")
	c.start()
	begin := func() (stop func()) {
		address, stop := c.backend(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(20 * time.Millisecond) // there are always some requests in flight
			fmt.Fprint(w, "pod")
		})
		c.zone.set(address)
		return stop
	}
	stop := begin()
	c.until("proxy answers", func() error { return c.answers(apiPath, 200, "pod") })

	end := c.call(4)
	for range 3 {
		former := stop
		stop = begin()
		time.Sleep(time.Duration(seconds) * time.Second) // the pause of a terminating pod; a longer sleep does not change the result
		former()
	}
	made, failed := end(requests)
	t.Logf("%d calls", made)
	assert.Equal(t, len(failed), 0, "%v", failed)

	c.zone.set()
	stop()
	c.until("the Service is gone", func() error { return c.answers(apiPath, 502, "") })
	begin()
	assert.NilError(t, process.Wait(t.Context(), again, func() error { return c.answers(apiPath, 200, "pod") }))
}
