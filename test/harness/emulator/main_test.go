// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build emulator

package emulator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"d3os.com/d3os-operator/test/cluster"
	"d3os.com/d3os-operator/test/harness/emulator"
	"d3os.com/d3os-operator/test/harness/stage"
)

// The state that all tests share.
var (
	suite = &stage.Suite{Patience: func() time.Duration { return 2 * time.Minute }}
	api   kubernetes.Interface
)

func TestMain(m *testing.M) {
	if os.Getenv("EMULATED") != "" {
		os.Exit(serve(os.Args[1:]))
	}
	os.Exit(suite.Main(m, cluster.Options{Name: "emulator"}, func(context.Context) (err error) {
		api, err = kubernetes.NewForConfig(suite.Config)
		return err
	}))
}

// serve runs the tests' program, in this test binary. It is an HTTP server that stores files in a folder and shows its environment, or a
// client that appends a word to a file of the server.
//
//	server <folder> [stubborn]      stubborn: ignores SIGTERM
//	say <file> <word>
func serve(args []string) int {
	if args[0] == "say" {
		return check(appendTo(args[1], args[2]))
	}
	folder := args[1]
	terms := make(chan os.Signal, 1)
	signal.Notify(terms, syscall.SIGTERM)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /file/{path...}", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, filepath.Join(folder, r.PathValue("path")))
	})
	mux.HandleFunc("PUT /file/{path...}", func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		_ = appendTo(filepath.Join(folder, r.PathValue("path")), string(text))
	})
	mux.HandleFunc("GET /env/{name}", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, os.Getenv(r.PathValue("name")))
	})
	mux.HandleFunc("GET /read", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, os.Getenv(r.URL.Query().Get("env")))
	})
	failed := make(chan error, 1)
	go func() { failed <- http.ListenAndServe(net.JoinHostPort(os.Getenv("POD_IP"), "8080"), mux) }()
	for {
		select {
		case err := <-failed:
			return check(err)
		case <-terms:
			if err := appendTo(filepath.Join(folder, "words"), "terminated"); err != nil || len(args) < 3 {
				return check(err)
			}
		}
	}
}

func check(err error) int {
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func appendTo(file, text string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text + " ")
	return errors.Join(err, f.Close())
}

// image is the program of the tests as an image of the emulator.
var image = emulator.Image{
	Entrypoint:  []string{"/bin/server"},
	Env:         map[string]string{"EMULATED": "server", "OF_THE_IMAGE": "yes"},
	Executables: map[string]string{"/bin/server": os.Args[0]},
}

// scene is a namespace with running pods.
type scene struct {
	*stage.Stage
	*emulator.Emulator
}

// start starts an emulator. make test does not build these tests, because the suites with real servers already test the emulator.
func start(t *testing.T) *scene {
	t.Parallel()
	s := &scene{Stage: suite.New(t)}
	var err error
	s.Emulator, err = emulator.Start(t.Context(), suite.Config, emulator.Options{Namespace: s.Namespace, Images: map[string]emulator.Image{"example/server": image}})
	s.Must(err)
	t.Cleanup(func() {
		if text, err := s.Log("server-0", "server"); err == nil && t.Failed() {
			t.Logf("log of the server:\n%s", text)
		}
		s.Must(s.Stop())
	})
	return s
}

// pod waits until the given function accepts a pod, and returns the pod.
func (s *scene) pod(name, what string, is func(*corev1.Pod) bool) *corev1.Pod {
	s.Helper()
	var pod *corev1.Pod
	s.Until(name+" "+what, func() error {
		var err error
		if pod, err = api.CoreV1().Pods(s.Namespace).Get(s.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		if !is(pod) {
			return fmt.Errorf("the pod's status is %s", pod.Status.String())
		}
		return nil
	})
	return pod
}

// ready waits until a pod is ready.
func (s *scene) ready(name string) *corev1.Pod {
	s.Helper()
	return s.pod(name, "is ready", stage.IsReady)
}

// ask sends a request to a pod and returns the answer, or the text of the error.
func (s *scene) ask(pod *corev1.Pod, method, path, body string) string {
	ctx, cancel := context.WithTimeout(s.Context(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+net.JoinHostPort(pod.Status.PodIP, "8080")+path, strings.NewReader(body))
	s.Must(err)
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close() // the body was read to its end
	text, err := io.ReadAll(response.Body)
	s.Must(err)
	if response.StatusCode != http.StatusOK {
		return response.Status
	}
	return string(text)
}

// answers fails the test unless a pod gives the expected answer.
func (s *scene) answers(pod *corev1.Pod, path, want string) {
	s.Helper()
	if got := s.ask(pod, http.MethodGet, path, ""); got != want {
		s.Errorf("%s of %s is %q, want %q", path, pod.Name, got, want)
	}
}
