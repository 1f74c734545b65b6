// The PostgreSQL clients of Go do real work with nothing but a URL, through the router.
//
// Usage: clients CLIENT postgresql://TOKEN:SECRET@HOST:PORT SOURCE CERTIFICATE
package main

import (
	"context"
	"fmt"
	"os"
	"time"
)

// place is where a client works: a branch of its own, which it creates by connecting.
type place struct {
	base, source, branch, certificate string
}

// create is the URL that creates the branch.
func (p place) create() string {
	return fmt.Sprintf("%s/%s@%s?sslmode=disable", p.base, p.source, p.branch)
}

// plain enters the branch without TLS.
func (p place) plain() string {
	return fmt.Sprintf("%s/%s?sslmode=disable", p.base, p.branch)
}

// secure enters it over TLS, with a certificate and a name that are held to be right.
func (p place) secure(certificate string) string {
	return fmt.Sprintf("%s/%s?sslmode=verify-full&sslrootcert=%s", p.base, p.branch, certificate)
}

var clients = map[string]func(context.Context, place){
	"pgx":          pgxWorks,
	"pgxpool":      pgxpoolWorks,
	"database_sql": databaseSQLWorks,
}

func main() {
	client := os.Args[1]
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	clients[client](ctx, place{os.Args[2], os.Args[3], "go-" + client, os.Args[4]})
	fmt.Printf("%s: ok\n", client)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func check[T comparable](what string, found, expected T) {
	if found != expected {
		panic(fmt.Sprintf("%s: %v instead of %v", what, found, expected))
	}
}
