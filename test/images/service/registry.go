// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// registry is a client of Eureka. It registers this process.
type registry struct {
	urls     []string
	app, id  string
	instance []byte
	renew    time.Duration
	client   http.Client
}

// newRegistry returns a client of Eureka. It returns nil if the settings have no address, or switch the registration off.
func newRegistry(s *settings, app, port string) (*registry, error) {
	zone, err := s.get("eureka.client.service-url.defaultZone", "")
	if err != nil {
		return nil, err
	}
	if zone == "" && s.env["EUREKA_URL"] != "" {
		zone = s.env["EUREKA_URL"] + "/eureka" // additional services get this variable
	}
	for _, name := range []string{"eureka.client.register-with-eureka", "eureka.client.enabled", "eureka.enabled"} {
		on, err := s.get(name, "true")
		if err != nil {
			return nil, err
		}
		if on == "false" {
			return nil, nil
		}
	}
	if zone == "" {
		return nil, nil
	}
	seconds := func(name string, fallback int) int {
		text, _ := s.get(name, "")
		if n, err := strconv.Atoi(text); err == nil && n > 0 {
			return n
		}
		return fallback
	}
	renew := seconds("eureka.instance.lease-renewal-interval-in-seconds", 30)
	expire := seconds("eureka.instance.lease-expiration-duration-in-seconds", 90)
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, fmt.Errorf("server.port: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	ip, err := address()
	if err != nil {
		return nil, err
	}
	r := &registry{app: strings.ToUpper(app), id: fmt.Sprintf("%s:%s:%s", host, app, port), renew: time.Duration(renew) * time.Second}
	r.client.Timeout = 5 * time.Second
	for _, u := range strings.Split(zone, ",") {
		r.urls = append(r.urls, strings.TrimSuffix(strings.TrimSpace(u), "/"))
	}
	r.instance, err = json.Marshal(map[string]any{"instance": map[string]any{
		"instanceId": r.id, "app": r.app, "hostName": ip, "ipAddr": ip, "status": "UP",
		"vipAddress": app, "secureVipAddress": app,
		"port":           map[string]any{"$": number, "@enabled": "true"},
		"securePort":     map[string]any{"$": 443, "@enabled": "false"},
		"dataCenterInfo": map[string]any{"@class": "com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo", "name": "MyOwn"},
		"leaseInfo":      map[string]any{"renewalIntervalInSecs": renew, "durationInSecs": expire},
	}})
	return r, err
}

// address returns the first usable address of this pod. It returns an error if there is none.
func address() (string, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, a := range addresses {
		if network, ok := a.(*net.IPNet); ok && network.IP.IsGlobalUnicast() {
			return network.IP.String(), nil
		}
	}
	return "", errors.New("this machine has no address")
}

// call sends a request to the servers in order, until one answers.
func (r *registry) call(ctx context.Context, method, path string, body []byte, into any) (int, error) {
	var last error
	for _, base := range r.urls {
		request, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(string(body)))
		if err != nil {
			return 0, err
		}
		request.Header.Set("Accept", "application/json")
		if body != nil {
			request.Header.Set("Content-Type", "application/json")
		}
		response, err := r.client.Do(request)
		if err != nil {
			last = err
			continue
		}
		if into != nil && response.StatusCode == http.StatusOK {
			err = json.NewDecoder(response.Body).Decode(into)
		}
		_ = response.Body.Close()
		return response.StatusCode, err
	}
	return 0, last
}

func (r *registry) register(ctx context.Context) error {
	status, err := r.call(ctx, http.MethodPost, "/apps/"+r.app, r.instance, nil)
	if err == nil && status != http.StatusNoContent {
		err = fmt.Errorf("answer %d", status)
	}
	return err
}

// join registers this process, and returns when Eureka has the entry.
func (r *registry) join(ctx context.Context) {
	for ctx.Err() == nil {
		err := r.register(ctx)
		if err == nil {
			log.Printf("registered in Eureka at %s as %s", strings.Join(r.urls, ","), r.app)
			return
		}
		log.Printf("Eureka at %s: %v", strings.Join(r.urls, ","), err)
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Second):
		}
	}
}

// stay renews the entry, and registers again if the server has lost the entry.
func (r *registry) stay(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(r.renew):
		}
		status, err := r.call(ctx, http.MethodPut, "/apps/"+r.app+"/"+r.id, nil, nil)
		if err == nil && status == http.StatusNotFound {
			err = r.register(ctx)
		}
		if err != nil && ctx.Err() == nil {
			log.Printf("Eureka: %v", err)
		}
	}
}

func (r *registry) leave() {
	_, _ = r.call(context.Background(), http.MethodDelete, "/apps/"+r.app+"/"+r.id, nil, nil)
}

// find returns the host and port of the first instance of a service whose status is UP. It returns an error if there is none.
func (r *registry) find(ctx context.Context, name string) (string, error) {
	var answer struct {
		Application struct {
			Instance []struct {
				IPAddr string `json:"ipAddr"`
				Status string `json:"status"`
				Port   struct {
					Number any `json:"$"`
				} `json:"port"`
			} `json:"instance"`
		} `json:"application"`
	}
	status, err := r.call(ctx, http.MethodGet, "/apps/"+strings.ToUpper(name), nil, &answer)
	if err != nil {
		return "", err
	}
	for _, i := range answer.Application.Instance {
		if status == http.StatusOK && i.Status == "UP" {
			return net.JoinHostPort(i.IPAddr, fmt.Sprint(i.Port.Number)), nil
		}
	}
	return "", fmt.Errorf("no instance of %s is registered in Eureka", name)
}
