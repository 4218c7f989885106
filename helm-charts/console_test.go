// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package helmcharts_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"d3os.com/d3os-operator/test/harness/process"
)

// console is a folder that the files of the chart use as the file system of a web pod.
type console struct {
	*testing.T

	root     string
	network  *process.Network
	zone     *zone
	deployed objects
	// address is the address and port of nginx that get uses. start sets it.
	address string
}

const (
	consoleValues = `{service: web, port: 8080, endpoints: {proxy: {host: proxy.data.svc, port: 9094}}, `
	apiPath       = "/project-dataservice/base-api1/"
	consolePort   = "8080"
	backendPort   = "9094"
	// hang is a time limit that only a hang exceeds.
	hang = 3 * time.Minute
)

// newConsole renders the chart with additional values, and writes the files that a pod of web gets.
func newConsole(t *testing.T, values string) *console {
	t.Helper()
	c := &console{T: t, root: t.TempDir(), deployed: made(t, "microservice", consoleValues+values+"}")}
	c.write("resolv.conf", "search data.svc.cluster.test svc.cluster.test cluster.test\nnameserver 10.96.0.10\noptions ndots:5\n")
	c.write("conf.d/default.conf", c.template())
	return c
}

func (c *console) write(name, text string) {
	c.Helper()
	file := filepath.Join(c.root, name)
	assert.NilError(c, os.MkdirAll(filepath.Dir(file), 0o700))
	assert.NilError(c, os.WriteFile(file, []byte(text), 0o600))
}

// file returns a file of the chart with the paths of this folder.
func (c *console) file(configMap, key string) string {
	c.Helper()
	text, _ := at(c.deployed["ConfigMap/"+configMap], "data", key).(string)
	for inside, here := range map[string]string{
		"/etc/nginx/conf.d": "/conf.d", "/etc/resolv.conf": "/resolv.conf", "/proc/net/if_inet6": "/if_inet6", "/usr/share/nginx/html": "/html",
	} {
		text = strings.ReplaceAll(text, inside, c.root+here)
	}
	return text
}

// template returns the configuration after the entrypoint of the image has replaced the pod's variables.
func (c *console) template() string {
	c.Helper()
	return regexp.MustCompile(`\$\{D3OS_NGINX_\w+\}`).ReplaceAllStringFunc(c.file("web-template", "default.conf.template"), func(name string) string {
		value, _ := named(at(c.deployed["Deployment/web"], "spec", "template", "spec", "containers", 0, "env"), strings.Trim(name, "${}"))["value"].(string)
		return value
	})
}

// enter runs the script of the entrypoint and returns its output.
func (c *console) enter() string {
	c.Helper()
	out, err := exec.CommandContext(c.Context(), "/bin/sh", "-c", c.file("web-template", "40-pod.sh")).CombinedOutput()
	assert.NilError(c, err, "%s", out)
	text, err := os.ReadFile(filepath.Join(c.root, "conf.d/pod.inc"))
	assert.NilError(c, err)
	return string(text)
}

// start starts nginx, and a DNS server that answers with the addresses in the zone.
func (c *console) start() {
	c.Helper()
	nginx, err := process.Program("NGINX", "nginx", "nginx")
	assert.NilError(c, err)
	c.network, err = process.ClaimNetwork()
	assert.NilError(c, err)
	c.Cleanup(func() { assert.Check(c, c.network.Release()) })
	c.zone = newZone(c.T, c.network.Host())
	c.address = net.JoinHostPort(c.network.Host(), consolePort)
	here := strings.NewReplacer("resolver 10.96.0.10 ", "resolver "+c.zone.address+" ", "listen [::]:"+consolePort, "listen "+c.address6())
	c.write("conf.d/pod.inc", here.Replace(c.enter()))
	c.write("conf.d/default.conf", strings.ReplaceAll(c.template(), "listen "+consolePort, "listen "+c.address))
	c.write("html/index.html", "the console")
	c.write("nginx.conf", `daemon off; master_process off; pid `+c.root+`/pid; error_log stderr notice;
events {}
http {
	access_log off; client_body_temp_path `+c.root+`/body; proxy_temp_path `+c.root+`/proxy;
	fastcgi_temp_path `+c.root+`/fastcgi; uwsgi_temp_path `+c.root+`/uwsgi; scgi_temp_path `+c.root+`/scgi;
	include `+c.root+`/conf.d/*.conf;
}
`)
	guard, err := process.NewGuard(c.TempDir())
	assert.NilError(c, err)
	c.Cleanup(func() { assert.Check(c, guard.End()) })
	log, err := os.Create(filepath.Join(c.root, "log"))
	assert.NilError(c, err)
	defer log.Close()
	run, err := guard.Start([]string{nginx, "-p", c.root, "-c", c.root + "/nginx.conf", "-e", "stderr"}, os.Environ(), c.root, log)
	assert.NilError(c, err)
	c.Cleanup(func() {
		run.Kill()
		if text, err := os.ReadFile(log.Name()); c.Failed() {
			c.Logf("nginx: %s (%v)", text, err)
		}
	})
	c.until("nginx serves the console", func() error {
		assert.Assert(c, run.Runs(), "nginx has ended")
		return c.answers("/", 200, "the console")
	})
}

// address6 returns the address of this machine at which nginx listens instead of [::]. The network's number makes the port unique.
func (c *console) address6() string {
	c.Helper()
	var number int
	_, err := fmt.Sscanf(c.network.Host(), "127.%d.", &number)
	assert.NilError(c, err)
	return net.JoinHostPort("::1", fmt.Sprint(61000+number))
}

func (c *console) until(what string, holds func() error) {
	c.Helper()
	assert.NilError(c, process.Wait(c.Context(), hang, holds), what)
}

// get returns the status, the body and the header of an answer of nginx.
func (c *console) get(path string, header http.Header) (int, string, http.Header, error) {
	request, err := http.NewRequestWithContext(c.Context(), http.MethodGet, "http://"+c.address+path, nil)
	if err != nil {
		return 0, "", nil, err
	}
	maps.Copy(request.Header, header)
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return 0, "", nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), response.Header, err
}

// answers returns the difference between the answer to a request and the expected answer.
func (c *console) answers(path string, status int, body string) error {
	is, text, _, err := c.get(path, nil)
	if err == nil && (is != status || body != "" && text != body) {
		err = fmt.Errorf("%s: %d %q", path, is, text)
	}
	return err
}

// backend serves the results of a function at an additional address, by the path of a request.
func (c *console) backend(serve http.HandlerFunc) (address string, stop func()) {
	c.Helper()
	address = c.network.Next()
	listener, err := new(net.ListenConfig).Listen(c.Context(), "tcp", net.JoinHostPort(address, backendPort))
	assert.NilError(c, err)
	server := &http.Server{Handler: serve, ReadHeaderTimeout: hang}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	stop = sync.OnceFunc(func() {
		assert.Check(c, server.Shutdown(context.WithoutCancel(c.Context()))) // Shutdown waits for the answers to accepted requests
		assert.Check(c, errors.Is(<-served, http.ErrServerClosed))
	})
	c.Cleanup(stop)
	return address, stop
}

// echo answers with a name and the path of the request.
func echo(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, name, " ", r.RequestURI) }
}

// call starts clients that call proxy without a pause. The returned function waits for a number of calls, stops the clients, and returns the
// number of calls and the failures.
func (c *console) call(clients int) (end func(atLeast int64) (made int64, failed []error)) {
	var calls atomic.Int64
	var ending atomic.Bool
	var running sync.WaitGroup
	failures := make([][]error, clients)
	for i := range clients {
		running.Go(func() {
			for !ending.Load() {
				if err := c.answers(apiPath, 200, "pod"); err != nil {
					failures[i] = append(failures[i], err)
				}
				calls.Add(1)
			}
		})
	}
	return func(atLeast int64) (int64, []error) {
		c.Helper()
		c.until("the calls are made", func() error {
			if made := calls.Load(); made < atLeast {
				return fmt.Errorf("%d calls", made)
			}
			return nil
		})
		ending.Store(true)
		running.Wait()
		return calls.Load(), slices.Concat(failures...)
	}
}

// zone is a DNS server with the addresses of one Service.
type zone struct {
	address string

	mu        sync.Mutex
	addresses []string
	asked     bool
}

func newZone(t *testing.T, host string) *zone {
	t.Helper()
	connection, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", net.JoinHostPort(host, "0"))
	assert.NilError(t, err)
	z := &zone{address: connection.LocalAddr().String()}
	ended := make(chan struct{})
	t.Cleanup(func() {
		assert.Check(t, connection.Close())
		<-ended
	})
	go func() {
		defer close(ended)
		question := make([]byte, 512)
		for {
			n, from, err := connection.ReadFrom(question)
			if err != nil {
				return
			}
			_, _ = connection.WriteTo(z.answer(question[:n]), from) // nginx repeats the query
		}
	}()
	return z
}

func (z *zone) set(addresses ...string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.addresses, z.asked = addresses, false
}

// answered reports whether the zone has got a query since its addresses were set.
func (z *zone) answered() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.asked
}

// answer returns the response to a question: the addresses of the Service, or NXDOMAIN for another name.
func (z *zone) answer(question []byte) []byte {
	const header, end = 12, 4
	z.mu.Lock()
	defer z.mu.Unlock()
	z.asked = true
	name := "\x05proxy\x04data\x03svc\x07cluster\x04test\x00"
	response := append([]byte{question[0], question[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, question[header:]...)
	if string(question[header:len(question)-end]) != name || len(z.addresses) == 0 {
		response[3] |= 3 // NXDOMAIN
		return response
	}
	if question[len(question)-end+1] != 1 { // answer only questions for A records
		return response
	}
	response[7] = byte(len(z.addresses))
	for _, address := range z.addresses {
		response = append(response, 0xC0, header, 0, 1, 0, 1, 0, 0, 0, 30, 0, 4)
		response = append(response, net.ParseIP(address).To4()...)
	}
	return response
}
