// Command service replaces the product's services. It starts as they do: it reads its settings, logs in to its databases, registers in
// Eureka, and only then listens.
//
//	/actuator/health   UP while its databases answer
//	/call/NAME/PATH    calls another service, which it finds in Eureka
//	anything else      returns its name
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"
)

// roots are the folders with settings: the first of the product's services, the second of additional services.
var roots = []string{"/dataservice", "/config"}

func main() {
	log.SetFlags(log.LstdFlags | log.LUTC)
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	s, files, err := readSettings(roots, os.Environ())
	if err != nil {
		return err
	}
	log.Printf("settings: %s", strings.Join(files, " "))
	for _, name := range s.names {
		if _, err := s.get(name, ""); err != nil {
			return err
		}
	}
	app, err := s.get("spring.application.name", "application")
	if err != nil {
		return err
	}
	port, err := s.get("server.port", "8080")
	if err != nil {
		return err
	}
	databases, err := connect(ctx, s)
	if err != nil {
		return err
	}
	registry, err := newRegistry(s, app, port)
	if err != nil {
		return err
	}
	if registry != nil {
		registry.join(ctx)
		go registry.stay(ctx)
		defer registry.leave()
	}
	if ctx.Err() != nil {
		return nil
	}

	server := &http.Server{Addr: ":" + port, Handler: handler(app, databases, registry), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		// Requests in progress are completed first, as in Spring's server.
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(last)
	}()
	log.Printf("%s listens on port %s", app, port)
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// connect logs in to every database that the settings name.
func connect(ctx context.Context, s *settings) (map[string]*sql.DB, error) {
	databases := map[string]*sql.DB{}
	for _, source := range s.sources() {
		address, err := s.get(source+".url", "")
		if err != nil {
			return nil, err
		}
		// The product's services spell this setting in two ways, which have one canonical form.
		user, err := s.get(source+".username", "")
		if err != nil {
			return nil, err
		}
		password, err := s.get(source+".password", "")
		if err != nil {
			return nil, err
		}
		config, err := dsn(address)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", source, err)
		}
		config.User, config.Passwd = user, password
		connector, err := mysql.NewConnector(config)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", source, err)
		}
		db := sql.OpenDB(connector)
		db.SetMaxOpenConns(2)
		// The real services wait this long for a connection from their pool.
		deadline := time.Now().Add(30 * time.Second)
		for {
			err = use(ctx, db)
			if err == nil || ctx.Err() != nil {
				break
			}
			log.Printf("%s: %s at %s: %v", source, config.DBName, config.Addr, err)
			var refused *mysql.MySQLError
			if errors.As(err, &refused) || time.Now().After(deadline) {
				return nil, fmt.Errorf("%s: %w", source, err)
			}
			time.Sleep(time.Second) // before the next attempt to log in
		}
		log.Printf("%s: logged in to %s at %s as %s", source, config.DBName, config.Addr, user)
		databases[source] = db
	}
	return databases, nil
}

// use acts like a service on a database: it writes a table and reads it.
func use(ctx context.Context, db *sql.DB) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for _, statement := range []string{
		"CREATE TABLE IF NOT EXISTS d3os_test_start (id INT PRIMARY KEY AUTO_INCREMENT, at TIMESTAMP DEFAULT CURRENT_TIMESTAMP)",
		"INSERT INTO d3os_test_start () VALUES ()",
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	var rows int
	return db.QueryRowContext(ctx, "SELECT COUNT(*) FROM d3os_test_start").Scan(&rows)
}

// dsn reads jdbc:mysql://host:port,host2:port/database?parameters. It ignores the parameters, which are for the Java driver.
func dsn(address string) (*mysql.Config, error) {
	rest, ok := strings.CutPrefix(address, "jdbc:mysql://")
	if !ok {
		return nil, fmt.Errorf("%q is not the address of a MySQL database", address)
	}
	rest, _, _ = strings.Cut(rest, "?")
	hosts, database, _ := strings.Cut(rest, "/")
	host, _, _ := strings.Cut(hosts, ",") // the Java driver also begins with the first host
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(strings.Trim(host, "[]"), "3306")
	}
	config := mysql.NewConfig()
	config.Net, config.Addr, config.DBName = "tcp", host, database
	config.Timeout = 5 * time.Second
	return config, nil
}

func handler(app string, databases map[string]*sql.DB, registry *registry) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/actuator/health", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		for source, db := range databases {
			if err := db.PingContext(ctx); err != nil {
				answer(w, http.StatusServiceUnavailable, map[string]any{"status": "DOWN", source: err.Error()})
				return
			}
		}
		answer(w, http.StatusOK, map[string]any{"status": "UP"})
	})
	mux.HandleFunc("/call/{name}/{path...}", func(w http.ResponseWriter, r *http.Request) {
		if registry == nil {
			answer(w, http.StatusNotImplemented, map[string]any{"error": "no Eureka"})
			return
		}
		target, err := registry.find(r.Context(), r.PathValue("name"))
		if err != nil {
			answer(w, http.StatusBadGateway, map[string]any{"error": err.Error()})
			return
		}
		proxy := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL = &url.URL{Scheme: "http", Host: target, Path: "/" + r.PathValue("path"), RawQuery: p.In.URL.RawQuery}
		}}
		proxy.ServeHTTP(w, r)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		host, _ := os.Hostname()
		answer(w, http.StatusOK, map[string]any{"service": app, "pod": host, "path": r.URL.Path, "databases": len(databases)})
	})
	return mux
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
