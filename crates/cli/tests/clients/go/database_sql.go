package main

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

func databaseSQLWorks(ctx context.Context, p place) {
	created, err := sql.Open("pgx", p.create())
	must(err)
	must(created.PingContext(ctx))
	must(created.Close())

	config, err := pgx.ParseConfig(p.secure(p.certificate))
	must(err)
	config.BuildContextWatcherHandler = cancelling
	db := stdlib.OpenDB(*config)
	defer db.Close()
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(4)

	insert, err := db.PrepareContext(ctx, "insert into t values ($1, $2)")
	must(err)
	for _, commit := range []bool{false, true} {
		tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelSerializable})
		must(err)
		_, err = tx.StmtContext(ctx, insert).ExecContext(ctx, -1, "by database/sql")
		must(err)
		if commit {
			must(tx.Commit())
		} else {
			must(tx.Rollback())
		}
	}
	_, err = insert.ExecContext(ctx, -1, "again")
	check("twice", state(err), "23505")

	// The statement is prepared in each connection that needs it.
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			_, err := insert.ExecContext(ctx, -10-i, sql.NullString{String: "by many", Valid: true})
			must(err)
		})
	}
	all.Wait()
	count := func() (count int) {
		must(db.QueryRowContext(ctx, "select count(*) from t where x < $1 and y is not null", 0).Scan(&count))
		return count
	}
	check("rows", count(), 17)

	short, stop := context.WithTimeout(ctx, 300*time.Millisecond)
	defer stop()
	_, err = db.ExecContext(short, "select pg_sleep(50)")
	check("cancelled", state(err), "57014")

	// Sessions that end beneath the pool are replaced.
	_, err = db.ExecContext(ctx, ends)
	must(err)
	for range 8 {
		check("rows after that", count(), 17)
	}
}
