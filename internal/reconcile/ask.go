// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"time"

	"d3os.com/d3os-operator/internal/contract"
)

// maxState bounds the bytes of a state that an agent serves.
const maxState = 64 << 10

// agents queries the agents in pods. It follows no redirection and uses no proxy, because it connects to the addresses of pods.
var agents = &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error {
	return http.ErrUseLastResponse
}}

// StateOf returns the state that the agent of a pod serves at contract.PathState. It returns nil if the agent does not
// answer within two seconds, or if the answer is not such a state.
func StateOf[T any](ctx context.Context, ip, port string) *T {
	address := "http://" + net.JoinHostPort(ip, port) + contract.PathState
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil
	}
	response, err := agents.Do(request)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	state := new(T)
	if response.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(response.Body, maxState)).Decode(state) != nil {
		return nil
	}
	return state
}
