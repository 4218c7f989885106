package main

import "context"

func scenarios(s *suite) []job { return nil }

func badInput(ctx context.Context, s *suite) error { return nil }
