// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

// Package etcd implements the Server of package member for etcd.
package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/member"
)

// The ports for clients, for other members, for metrics, and for the probes and the state of the agent.
const (
	clientPort  = "2379"
	peerPort    = "2380"
	metricsPort = "2381"
	watchPort   = "2382"
)

// Server is the etcd server in a pod.
type Server struct {
	// Pod is the pod's name, Set the name of its StatefulSet, and Namespace the namespace of both.
	Pod, Set, Namespace string
	// UID and IP are the pod's UID and address.
	UID, IP string
	// Domain is the common suffix of the pods' DNS names, such as my-etcd-headless.default.svc.
	Domain string
	// Pods is the maximum number of pods in the set. Peers queries all of them.
	Pods int
	// ServerTLS and PeerTLS are folders with tls.crt, tls.key and ca.crt; empty for connections without TLS.
	ServerTLS, PeerTLS string
	// Program is etcd's name or path.
	Program string
	// Flags are further flags for etcd.
	Flags []string
}

// New returns the etcd server in a pod. The pod's name must be the name of the StatefulSet with an ordinal.
func New(s Server) (*Server, error) {
	i := strings.LastIndex(s.Pod, "-")
	if i < 1 {
		return nil, fmt.Errorf("pod %q is no pod of a StatefulSet: its name must end in a number", s.Pod)
	}
	if _, err := strconv.Atoi(s.Pod[i+1:]); err != nil {
		return nil, fmt.Errorf("pod %q is no pod of a StatefulSet: its name must end in a number", s.Pod)
	}
	if net.ParseIP(s.IP) == nil {
		return nil, fmt.Errorf("%q is not the address of a pod", s.IP)
	}
	if s.Namespace == "" || s.Domain == "" || s.Pods < 1 {
		return nil, errors.New("the namespace, the domain and the number of pods must be given")
	}
	s.Set = s.Pod[:i]
	return &s, nil
}

// PeerURL returns the address at which other members reach this member.
func (s *Server) PeerURL() string { return s.peerURL(s.Pod) }

func (s *Server) peerURL(pod string) string {
	return scheme(s.PeerTLS) + "://" + pod + "." + s.Domain + ":" + peerPort
}

// StateAddress returns the address at which the agent serves its state until etcd runs. etcd then uses the same port.
func (s *Server) StateAddress() string { return net.JoinHostPort(s.IP, metricsPort) }

// WatchAddress returns the address at which the agent serves its state while etcd runs.
func (s *Server) WatchAddress() string { return net.JoinHostPort(s.IP, watchPort) }

func scheme(folder string) string {
	if folder == "" {
		return "http"
	}
	return "https"
}

// listen returns the URLs to listen on: the pod's address, and the loopback address for users who log in to the pod.
func (s *Server) listen(scheme, port string) string {
	urls := scheme + "://" + net.JoinHostPort(s.IP, port)
	if !net.ParseIP(s.IP).IsLoopback() {
		urls += "," + scheme + "://127.0.0.1:" + port
	}
	return urls
}

// Command returns the command that starts etcd.
func (s *Server) Command(d member.Decision, ticket member.Ticket, folder string) (program string, argv, env []string, err error) {
	if program, err = exec.LookPath(s.Program); err != nil {
		return "", nil, nil, fmt.Errorf("find %s in the image: %w", s.Program, err)
	}
	version := askVersion(program)
	argv = []string{
		program, "--name=" + s.Pod, "--data-dir=" + folder,
		"--listen-peer-urls=" + s.listen(scheme(s.PeerTLS), peerPort),
		"--listen-client-urls=" + s.listen(scheme(s.ServerTLS), clientPort),
		"--listen-metrics-urls=" + s.listen("http", metricsPort),
		"--initial-advertise-peer-urls=" + s.PeerURL(),
		"--advertise-client-urls=" + scheme(s.ServerTLS) + "://" + s.Pod + "." + s.Domain + ":" + clientPort,
	}
	argv = append(argv, s.bootstrap(d, ticket)...)
	argv = append(argv, s.tls(version)...)
	if version.major == 3 && version.minor == 4 {
		argv = append(argv, "--logger=zap") // since 3.5, zap is the only logger
	}
	argv = append(argv, s.Flags...)
	// etcd reads environment variables as flags, and refuses to start if a variable contradicts a flag.
	env = slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "ETCD_") })
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", nil, nil, fmt.Errorf("make the folder of the data: %w", err)
	}
	return program, argv, env, nil
}

// bootstrap returns the flags about the initial cluster, or --force-new-cluster. etcd with data ignores the flags about the initial
// cluster.
func (s *Server) bootstrap(d member.Decision, ticket member.Ticket) []string {
	switch d.Start {
	case member.Seed:
		token := ticket.Argument
		if token == "" {
			token = s.UID
		}
		return []string{
			"--initial-cluster-state=new", "--initial-cluster=" + s.Pod + "=" + s.PeerURL(),
			"--initial-cluster-token=" + s.Namespace + "/" + s.Set + "/" + token,
		}
	case member.Join:
		var members []string
		for i, m := range d.Members {
			name := m.Name
			if m.ID == ticket.Argument {
				name = s.Pod
			} else if name == "" { // the member was never started: etcd requires a name here, but compares only the address
				name = fmt.Sprintf("unstarted-%d", i)
			}
			for _, url := range m.PeerURLs {
				members = append(members, name+"="+url)
			}
		}
		return []string{"--initial-cluster-state=existing", "--initial-cluster=" + strings.Join(members, ",")}
	case member.Force:
		return []string{"--force-new-cluster"}
	default:
		return []string{"--initial-cluster-state=existing"}
	}
}

// tls returns the flags for certificates. A member's certificate has DNS names, because addresses of pods change. etcd accepts each client
// with a certificate of the members' CA. It does not compare the certificate's names with the client's address.
func (s *Server) tls(v version) []string {
	var flags []string
	if s.ServerTLS != "" {
		flags = append(flags, "--client-cert-auth", "--cert-file="+filepath.Join(s.ServerTLS, "tls.crt"),
			"--key-file="+filepath.Join(s.ServerTLS, "tls.key"), "--trusted-ca-file="+filepath.Join(s.ServerTLS, "ca.crt"))
	}
	if s.PeerTLS != "" {
		flags = append(flags, "--peer-client-cert-auth", "--peer-cert-file="+filepath.Join(s.PeerTLS, "tls.crt"),
			"--peer-key-file="+filepath.Join(s.PeerTLS, "tls.key"), "--peer-trusted-ca-file="+filepath.Join(s.PeerTLS, "ca.crt"))
		switch {
		case v.atLeast(3, 6):
			flags = append(flags, "--peer-skip-client-san-verification")
		case v.atLeast(3, 5):
			flags = append(flags, "--experimental-peer-skip-client-san-verification")
		}
	}
	return flags
}

// version is the version of etcd; zero if it is unknown.
type version struct{ major, minor int }

func (v version) atLeast(major, minor int) bool {
	return v.major > major || v.major == major && v.minor >= minor
}

var versionLine = regexp.MustCompile(`etcd Version: (\d+)\.(\d+)\.`)

// CheckVersion returns an error if the image's etcd has another minor version than wanted. For 3.6.16, the minor
// version is 3.6.
func (s *Server) CheckVersion(wanted string) error {
	program, err := exec.LookPath(s.Program)
	if err != nil {
		return fmt.Errorf("find %s in the image: %w", s.Program, err)
	}
	has, known := readVersion(program)
	if known && !strings.HasPrefix(wanted+".", fmt.Sprintf("%d.%d.", has.major, has.minor)) {
		return fmt.Errorf("the image has etcd %d.%d, but spec.version is %s: make spec.image and spec.version agree", has.major, has.minor, wanted)
	}
	return nil
}

// CheckCertificates returns the reason why etcd cannot start with the certificates in its folders, or nil. The error of etcd itself does
// not name this reason.
func (s *Server) CheckCertificates() error {
	for _, folder := range []string{s.ServerTLS, s.PeerTLS} {
		if folder == "" {
			continue
		}
		if _, _, err := loadCertificates(folder); err != nil {
			return fmt.Errorf("etcd does not start with the certificates in %s, which come from a Secret: %w", folder, err)
		}
	}
	return nil
}

// loadCertificates reads a folder with a certificate, its key and the CA.
func loadCertificates(folder string) (pair tls.Certificate, authority *x509.CertPool, err error) {
	if pair, err = tls.LoadX509KeyPair(filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")); err != nil {
		return pair, nil, fmt.Errorf("tls.crt and tls.key: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "ca.crt"))
	if err != nil {
		return pair, nil, fmt.Errorf("ca.crt: %w", err)
	}
	authority, found := x509.NewCertPool(), false
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return pair, nil, fmt.Errorf("ca.crt: %w", err)
		}
		authority.AddCert(certificate)
		found = true
	}
	if !found {
		return pair, nil, errors.New("ca.crt has no certificate")
	}
	return pair, authority, nil
}

// askVersion returns the version of the image's etcd. If the version is unknown, it returns 3.6.
func askVersion(program string) version {
	if has, known := readVersion(program); known {
		return has
	}
	return version{3, 6}
}

// readVersion runs the image's etcd to read its version.
func readVersion(program string) (has version, known bool) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	text, err := exec.CommandContext(ctx, program, "--version").Output()
	found := versionLine.FindSubmatch(text)
	if err != nil || found == nil {
		return has, false
	}
	has.major, _ = strconv.Atoi(string(found[1]))
	has.minor, _ = strconv.Atoi(string(found[2]))
	return has, true
}
