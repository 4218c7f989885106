// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"d3os.com/d3os-operator/cmd/agent/internal/member"
)

const (
	// peerPatience is the maximum time in which a member must answer.
	peerPatience = time.Second
	// longestAnswer limits the size of an answer.
	longestAnswer = 1 << 20
)

// listed is a member in the answer of a peer.
type listed struct {
	ID       uint64   `json:"id"`
	Name     string   `json:"name"`
	PeerURLs []string `json:"peerURLs"`
	Learner  bool     `json:"isLearner"`
}

// Peers queries the other members concurrently. etcd itself sends the same request before a member joins.
func (s *Server) Peers(ctx context.Context) member.Peers {
	ctx, cancel := context.WithTimeout(ctx, peerPatience)
	defer cancel()
	client, err := s.client()
	if err != nil {
		return member.Peers{}
	}
	defer client.CloseIdleConnections()
	answers := make([]*member.Answer, s.Pods)
	var asked sync.WaitGroup
	for i := range answers {
		if pod := fmt.Sprintf("%s-%d", s.Set, i); pod != s.Pod {
			asked.Go(func() {
				if answer, err := ask(ctx, client, s.peerURL(pod)); err == nil {
					answers[i] = answer
				}
			})
		}
	}
	asked.Wait()
	var peers member.Peers
	for _, answer := range answers {
		if answer != nil {
			peers.Answers = append(peers.Answers, *answer)
		}
	}
	return peers
}

func ask(ctx context.Context, client *http.Client, url string) (*member.Answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/members", http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	var members []listed
	if err := json.NewDecoder(io.LimitReader(response.Body, longestAnswer)).Decode(&members); err != nil {
		return nil, err
	}
	answer := &member.Answer{From: url, Cluster: response.Header.Get("X-Etcd-Cluster-ID")}
	for _, m := range members {
		answer.Members = append(answer.Members, member.Listed{ID: formatID(m.ID), Name: m.Name, PeerURLs: m.PeerURLs, Learner: m.Learner})
	}
	return answer, nil
}

// client returns a client with the certificate of a member.
func (s *Server) client() (*http.Client, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment}
	if s.PeerTLS != "" {
		pair, authority, err := loadCertificates(s.PeerTLS)
		if err != nil {
			return nil, fmt.Errorf("read the certificates for other members: %w", err)
		}
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, RootCAs: authority}
	}
	return &http.Client{Transport: transport}, nil
}
