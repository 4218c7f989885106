// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package example

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Client sends HTTP requests to members.
type Client struct{ http.RoundTripper }

// answers limits the time for one request.
const answers = 2 * time.Second

// Data returns the ID of a member's data, or "" if the member has no data.
func (c Client) Data(ctx context.Context, host, password string) (string, error) {
	return c.do(ctx, http.MethodGet, "http://"+host+":8080/data", password)
}

// Create creates the data of a member. It returns an error if the member has other data.
func (c Client) Create(ctx context.Context, host, password, data string) error {
	_, err := c.do(ctx, http.MethodPut, "http://"+host+":8080/data?id="+data, password)
	return err
}

// Copy makes a member copy the data of another member. It returns an error if the member has data.
func (c Client) Copy(ctx context.Context, host, password, from string) error {
	_, err := c.do(ctx, http.MethodPut, "http://"+host+":8080/copy?from="+from, password)
	return err
}

func (c Client) do(ctx context.Context, method, url, password string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answers)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", method, url, err)
	}
	request.SetBasicAuth("operator", password)
	response, err := c.RoundTrip(request)
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", method, url, err)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<10))
	err = errors.Join(err, response.Body.Close())
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", method, url, err)
	}
	return string(body), nil
}
