// Command eureka is a small registry that speaks Eureka's REST interface in JSON: register, renew,
// cancel and read. Several registries replicate to each other.
//
// It takes its port and its peers from the same settings as Spring Boot: --server.port=N, SERVER_PORT,
// and EUREKA_CLIENT_SERVICEURL_DEFAULTZONE.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"maps"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

type entry struct {
	instance map[string]any
	expires  time.Time
	lease    time.Duration
}

type server struct {
	mu      sync.Mutex
	entries map[string]map[string]*entry // by app and instance
	peers   []string
}

const replicated = "X-Netflix-Discovery-Replication"

func main() {
	log.SetFlags(log.LstdFlags | log.LUTC)
	port := cmp.Or(os.Getenv("SERVER_PORT"), os.Getenv("PORT"), "8761")
	for _, argument := range os.Args[1:] {
		if value, ok := strings.CutPrefix(argument, "--server.port="); ok {
			port = value
		}
	}
	s := &server{entries: map[string]map[string]*entry{}}
	for _, peer := range strings.Split(os.Getenv("EUREKA_CLIENT_SERVICEURL_DEFAULTZONE"), ",") {
		own := os.Getenv("EUREKA_INSTANCE_HOSTNAME")
		if peer != "" && (own == "" || !strings.Contains(peer, "://"+own+":")) {
			s.peers = append(s.peers, strings.TrimSuffix(peer, "/"))
		}
	}
	s.copyFromPeers()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	web := &http.Server{Addr: ":" + port, Handler: s.routes(), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = web.Shutdown(last)
	}()
	log.Printf("eureka listens on port %s, peers: %s", port, strings.Join(s.peers, " "))
	if err := web.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}

func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /eureka/apps", s.all)
	mux.HandleFunc("GET /eureka/apps/{app}", s.one)
	mux.HandleFunc("POST /eureka/apps/{app}", s.register)
	mux.HandleFunc("PUT /eureka/apps/{app}/{id}", s.renew)
	mux.HandleFunc("DELETE /eureka/apps/{app}/{id}", s.cancel)
	mux.HandleFunc("GET /actuator/health", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"status": "UP"})
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "eureka\n") })
	return mux
}

func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

// application returns an app with its instances, and removes expired entries. The caller holds s.mu.
func (s *server) application(app string) map[string]any {
	instances := []map[string]any{}
	for _, id := range slices.Sorted(maps.Keys(s.entries[app])) {
		if e := s.entries[app][id]; time.Now().After(e.expires) {
			log.Printf("%s of %s has expired", id, app)
			delete(s.entries[app], id)
		} else {
			instances = append(instances, e.instance)
		}
	}
	if len(instances) == 0 {
		delete(s.entries, app)
		return nil
	}
	return map[string]any{"name": app, "instance": instances}
}

func (s *server) all(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	applications := []map[string]any{}
	for _, app := range slices.Sorted(maps.Keys(s.entries)) {
		if a := s.application(app); a != nil {
			applications = append(applications, a)
		}
	}
	answer(w, map[string]any{"applications": map[string]any{
		"versions__delta": "1", "apps__hashcode": "", "application": applications}})
}

func (s *server) one(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.application(strings.ToUpper(r.PathValue("app")))
	if a == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	answer(w, map[string]any{"application": a})
}

// find returns the entry that a request names. Without an entry it answers 404 and returns nil. The caller holds s.mu.
func (s *server) find(w http.ResponseWriter, r *http.Request) *entry {
	e := s.entries[strings.ToUpper(r.PathValue("app"))][r.PathValue("id")]
	if e == nil || time.Now().After(e.expires) {
		w.WriteHeader(http.StatusNotFound)
		return nil
	}
	return e
}

func (s *server) register(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var body struct {
		Instance map[string]any `json:"instance"`
	}
	if err := json.Unmarshal(text, &body); err != nil || body.Instance == nil {
		http.Error(w, "an instance in JSON is expected", http.StatusBadRequest)
		return
	}
	app := strings.ToUpper(r.PathValue("app"))
	id, _ := body.Instance["instanceId"].(string)
	if id == "" {
		id, _ = body.Instance["hostName"].(string)
	}
	if id == "" {
		http.Error(w, "the instance has no id", http.StatusBadRequest)
		return
	}
	s.add(app, id, body.Instance)
	log.Printf("%s registered as %s", id, app)
	s.replicate(r, text)
	w.WriteHeader(http.StatusNoContent)
}

func (s *server) add(app, id string, instance map[string]any) {
	lease := 90 * time.Second
	if info, ok := instance["leaseInfo"].(map[string]any); ok {
		if seconds, ok := info["durationInSecs"].(float64); ok && seconds > 0 {
			lease = time.Duration(seconds) * time.Second
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.entries[app] == nil {
		s.entries[app] = map[string]*entry{}
	}
	s.entries[app][id] = &entry{instance: instance, lease: lease, expires: time.Now().Add(lease)}
}

func (s *server) renew(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.find(w, r); e != nil {
		e.expires = time.Now().Add(e.lease)
		s.replicate(r, nil)
	}
}

func (s *server) cancel(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.find(w, r); e != nil {
		app := strings.ToUpper(r.PathValue("app"))
		delete(s.entries[app], r.PathValue("id"))
		log.Printf("%s of %s has left", r.PathValue("id"), app)
		s.replicate(r, nil)
	}
}

var client = http.Client{Timeout: 2 * time.Second}

// replicate forwards a request to all peers, except a request that a peer has forwarded.
func (s *server) replicate(r *http.Request, body []byte) {
	if r.Header.Get(replicated) != "" {
		return
	}
	path := strings.TrimPrefix(r.URL.RequestURI(), "/eureka")
	for _, peer := range s.peers {
		go func() {
			request, err := http.NewRequest(r.Method, peer+path, bytes.NewReader(body))
			if err != nil {
				return
			}
			request.Header.Set(replicated, "true")
			response, err := client.Do(request)
			if err != nil {
				log.Printf("peer %s: %v", peer, err)
				return
			}
			_ = response.Body.Close()
		}()
	}
}

// copyFromPeers copies the entries of other servers. A peer that does not run yet gets entries later and forwards them.
func (s *server) copyFromPeers() {
	for _, peer := range s.peers {
		response, err := client.Get(peer + "/apps")
		if err != nil {
			continue
		}
		var body struct {
			Applications struct {
				Application []struct {
					Name     string           `json:"name"`
					Instance []map[string]any `json:"instance"`
				} `json:"application"`
			} `json:"applications"`
		}
		err = json.NewDecoder(response.Body).Decode(&body)
		_ = response.Body.Close()
		if err != nil {
			continue
		}
		for _, app := range body.Applications.Application {
			for _, instance := range app.Instance {
				if id, ok := instance["instanceId"].(string); ok {
					s.add(app.Name, id, instance)
				}
			}
		}
		return
	}
}
