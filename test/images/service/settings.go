package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf16"

	"go.yaml.in/yaml/v3"
)

// settings contains the names and values in all files and in the environment. As in Spring Boot, later files override earlier ones,
// variables override files, and a name may have several spellings.
type settings struct {
	values map[string]string // by canonical name
	exact  map[string]string // by the name as written
	names  []string          // as written, in the order of their first appearance
	env    map[string]string
}

// canonical returns one form for service-url, serviceUrl and SERVICE_URL.
func canonical(name string) string {
	return strings.ToLower(strings.NewReplacer(".", "", "-", "", "_", "").Replace(name))
}

// readSettings reads application.yml, .yaml and .properties anywhere below the roots.
func readSettings(roots []string, environ []string) (*settings, []string, error) {
	s := &settings{values: map[string]string{}, exact: map[string]string{}, env: map[string]string{}}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		s.env[name] = value
	}
	var files []string
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if os.IsNotExist(err) || err == nil && entry.IsDir() && strings.HasPrefix(entry.Name(), "..") {
				return filepath.SkipDir // the links of a ConfigMap's files lead into these folders
			}
			if err != nil || entry.IsDir() {
				return err
			}
			var read func(string, []byte) error
			switch entry.Name() {
			case "application.yml", "application.yaml":
				read = s.yaml
			case "application.properties":
				read = s.properties
			default:
				return nil
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			files = append(files, path)
			return read(path, text)
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return s, files, nil
}

func (s *settings) set(name, value string) {
	key := canonical(name)
	if _, known := s.values[key]; !known {
		s.names = append(s.names, name)
	}
	s.values[key] = value
	s.exact[name] = value
}

func (s *settings) yaml(path string, text []byte) error {
	documents := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var tree yaml.Node
		if err := documents.Decode(&tree); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		// SnakeYAML refuses a key that is written twice. Decoding into a map refuses such a key, too.
		var check map[string]any
		if err := tree.Decode(&check); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		s.node("", &tree)
	}
}

func (s *settings) node(name string, node *yaml.Node) {
	switch node.Kind {
	case yaml.DocumentNode:
		for _, content := range node.Content {
			s.node(name, content)
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			key := node.Content[i].Value
			if name != "" {
				key = name + "." + key
			}
			s.node(key, node.Content[i+1])
		}
	case yaml.SequenceNode:
		for i, content := range node.Content {
			s.node(name+"["+strconv.Itoa(i)+"]", content)
		}
	case yaml.AliasNode:
		s.node(name, node.Alias)
	case yaml.ScalarNode:
		s.set(name, node.Value)
	}
}

// properties reads the format of java.util.Properties.
func (s *settings) properties(_ string, text []byte) error {
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	line := ""
	for lines.Scan() {
		part := strings.TrimLeft(lines.Text(), " \t\f")
		if line == "" && (part == "" || part[0] == '#' || part[0] == '!') {
			continue
		}
		line += part
		if backslashes := len(line) - len(strings.TrimRight(line, `\`)); backslashes%2 == 1 {
			line = line[:len(line)-1]
			continue
		}
		name, value := property(line)
		s.set(name, value)
		line = ""
	}
	if line != "" {
		name, value := property(line)
		s.set(name, value)
	}
	return lines.Err()
}

func property(line string) (name, value string) {
	end := 0
	for end < len(line) && !strings.ContainsRune("=: \t\f", rune(line[end])) {
		if line[end] == '\\' {
			end++
		}
		end++
	}
	end = min(end, len(line))
	value = strings.TrimLeft(line[end:], " \t\f")
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], " \t\f")
	}
	return unescape(line[:end]), unescape(value)
}

func unescape(text string) string {
	var units []uint16 // UTF-16 code units: a character may need two of them
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			units = append(units, uint16(text[i])) // ISO 8859-1
			continue
		}
		i++
		switch text[i] {
		case 't':
			units = append(units, '\t')
		case 'n':
			units = append(units, '\n')
		case 'r':
			units = append(units, '\r')
		case 'f':
			units = append(units, '\f')
		case 'u':
			if i+4 < len(text) {
				if code, err := strconv.ParseUint(text[i+1:i+5], 16, 16); err == nil {
					units = append(units, uint16(code))
					i += 4
				}
			}
		default:
			units = append(units, uint16(text[i]))
		}
	}
	return string(utf16.Decode(units))
}

// raw returns a setting as written, and whether it is set. Variables override files.
func (s *settings) raw(name string) (string, bool) {
	if value, ok := s.env[name]; ok {
		return value, true
	}
	variable := strings.ToUpper(strings.NewReplacer(".", "_", "-", "").Replace(name))
	if value, ok := s.env[variable]; ok {
		return value, true
	}
	value, ok := s.values[canonical(name)]
	return value, ok
}

// named returns the value of a placeholder's name. Only a name in Spring's canonical spelling stands for other spellings: ${SOME_NAME} is
// not a reference to some.name.
func (s *settings) named(name string) (string, bool) {
	if value, ok := s.env[name]; ok {
		return value, true
	}
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789.-[]") == "" {
		return s.raw(name)
	}
	value, ok := s.exact[name]
	return value, ok
}

// get returns a setting with its placeholders replaced, or fallback if the setting does not exist.
func (s *settings) get(name, fallback string) (string, error) {
	value, ok := s.raw(name)
	if !ok {
		return fallback, nil
	}
	filled, err := s.fill(value, 0)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return filled, nil
}

// fill replaces ${NAME} and ${NAME:default}, which may be nested.
func (s *settings) fill(text string, depth int) (string, error) {
	if depth > 20 {
		return "", fmt.Errorf("circular placeholder in %q", text)
	}
	from := strings.Index(text, "${")
	if from < 0 {
		return text, nil
	}
	open, to := 0, -1
	for i := from; i < len(text); i++ {
		if strings.HasPrefix(text[i:], "${") {
			open++
		}
		if text[i] == '}' {
			if open--; open == 0 {
				to = i
				break
			}
		}
	}
	if to < 0 {
		return text, nil
	}
	inner, err := s.fill(text[from+2:to], depth+1)
	if err != nil {
		return "", err
	}
	name, fallback, hasFallback := strings.Cut(inner, ":")
	value, ok := s.named(name)
	switch {
	case ok:
		if value, err = s.fill(value, depth+1); err != nil {
			return "", err
		}
	case hasFallback:
		value = fallback
	default:
		return "", fmt.Errorf("could not resolve placeholder %q", name)
	}
	rest, err := s.fill(text[to+1:], depth)
	return text[:from] + value + rest, err
}

// sources returns the names of the settings groups that contain the url of a datasource: spring.datasource, manager.datasource …
func (s *settings) sources() []string {
	var found []string
	for _, name := range s.names {
		if prefix, ok := strings.CutSuffix(name, ".url"); ok && strings.HasSuffix(prefix, "datasource") {
			found = append(found, prefix)
		}
	}
	if _, ok := s.raw("spring.datasource.url"); ok && len(found) == 0 {
		found = append(found, "spring.datasource")
	}
	return found
}
