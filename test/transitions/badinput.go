package main

import "context"

func badInput(ctx context.Context, s *suite) error { return nil }
