// Copyright The d3os-operator Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"d3os.com/d3os-operator/cmd/agent/internal/server"
)

// headSize is larger than the part of a dump before its first statement of data.
const headSize = 8 << 10

var (
	headMode = []byte("SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO'")
	// inFolder makes the server create tables in the data folder, regardless of DATA DIRECTORY.
	inFolder = []byte("SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO,NO_DIR_IN_CREATE'")
	setMode  = []byte("/*!50003 SET sql_mode")
	oldMode  = []byte("NO_AUTO_CREATE_USER")
)

// rewritten returns a dump in a form that the target server accepts.
func rewritten(dump io.Reader, from, to server.Version) io.Reader {
	r := bufio.NewReaderSize(dump, 256<<10)
	head, _ := r.Peek(headSize) // a later read returns the error
	if i := bytes.Index(head, headMode); i >= 0 {
		begin := append(bytes.Clone(head[:i]), inFolder...)
		_, _ = r.Discard(i + len(headMode)) // cannot fail after Peek
		r = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(begin), r), 256<<10)
	}
	if from.AtLeast(8, 0, 0) || !to.AtLeast(8, 0, 0) {
		return r
	}
	return &withoutOldMode{r: r, begins: true}
}

// withoutOldMode removes an SQL mode that MySQL 8.0 lacks. Dumps set SQL modes on separate lines, outside of bodies.
type withoutOldMode struct {
	r      *bufio.Reader
	rest   []byte
	begins bool // true at the beginning of a line
	err    error
}

func (w *withoutOldMode) Read(p []byte) (int, error) {
	for len(w.rest) == 0 {
		if w.err != nil {
			return 0, w.err
		}
		var line []byte
		line, w.err = w.r.ReadSlice('\n')
		if errors.Is(w.err, bufio.ErrBufferFull) {
			w.err = nil
		}
		w.rest = line
		if w.begins && bytes.HasPrefix(line, setMode) {
			w.rest = bytes.Replace(bytes.Replace(line, append(oldMode, ','), nil, 1), oldMode, nil, 1)
			w.rest = bytes.Replace(w.rest, []byte(",'"), []byte("'"), 1)
		}
		w.begins = bytes.HasSuffix(line, []byte("\n"))
	}
	n := copy(p, w.rest)
	w.rest = w.rest[n:]
	return n, nil
}
