// Checker reads a history of operations on names of branches, one JSON object a line, and says whether it is linearizable: whether
// there is an order of the operations, each between its call and its return, in which every answer is right. It is looked for by
// porcupine (https://github.com/anishathalye/porcupine), name by name.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

// Limit is how long it looks.
const limit = 5 * time.Minute

// Somebody is the id of a branch that a create without an answer may have made.
const somebody = "?"

type operation struct {
	Client   int    `json:"client"`
	Op       string `json:"op"`
	Name     string `json:"name"`
	Call     int64  `json:"call"`
	Return   int64  `json:"return"`
	Told     string `json:"told"`
	ID       string `json:"id"`
	Existing bool   `json:"existing"`
}

// The state of a name is the id of its branch, and empty if it is free.
var model = porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byName := map[string][]porcupine.Operation{}
		for _, one := range history {
			name := one.Input.(operation).Name
			byName[name] = append(byName[name], one)
		}
		parts := make([][]porcupine.Operation, 0, len(byName))
		for _, part := range byName {
			parts = append(parts, part)
		}
		return parts
	},
	Init: func() []interface{} { return []interface{}{""} },
	Step: func(state, input, _ interface{}) []interface{} {
		has, op := state.(string), input.(operation)
		become := func(states ...string) []interface{} {
			all := make([]interface{}, len(states))
			for place, one := range states {
				all[place] = one
			}
			return all
		}
		is := has == op.ID || has == somebody
		switch {
		case op.Told == "none" && has == "":
			return become("")
		case op.Told == "none":
			return nil
		case op.Op == "create" && op.Told == "unknown" && has == "":
			return become("", somebody)
		case op.Op == "create" && op.Told == "unknown":
			return become(has)
		case op.Op == "destroy" && op.Told == "unknown":
			return become(has, "")
		case op.Told == "unknown":
			return become(has)
		case op.Op == "create" && !op.Existing && has == "":
			return become(op.ID)
		case op.Op == "create" && op.Existing && is:
			return become(op.ID)
		case op.Op == "get" && is:
			return become(op.ID)
		case op.Op == "destroy" && is:
			return become("")
		}
		return nil
	},
	Equal:             func(a, b interface{}) bool { return a == b },
	DescribeOperation: func(input, _ interface{}) string { return fmt.Sprintf("%+v", input) },
	DescribeState:     func(state interface{}) string { return fmt.Sprintf("%q", state) },
}

func main() {
	file, err := os.Open(os.Args[1])
	if err != nil {
		fmt.Println(err)
		os.Exit(2)
	}
	defer file.Close()
	var history []porcupine.Operation
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	unknown := 0
	for lines.Scan() {
		var one operation
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			fmt.Println(err)
			os.Exit(2)
		}
		if one.Told == "unknown" {
			// It may happen at any time from its call on.
			one.Return = math.MaxInt64
			unknown++
			if one.Op == "get" {
				continue
			}
		}
		history = append(history, porcupine.Operation{ClientId: one.Client, Input: one, Call: one.Call, Return: one.Return})
	}
	checked := model.ToModel()
	result, info := porcupine.CheckOperationsVerbose(checked, history, limit)
	fmt.Printf("porcupine: %d operations, %d of them without an answer: %s\n", len(history), unknown, result)
	if result != porcupine.Ok {
		if out := os.Getenv("CHECKER_PICTURE"); out != "" {
			_ = porcupine.VisualizePath(checked, info, out)
		}
		// Which names cannot be put in order.
		for _, part := range model.Partition(history) {
			if !porcupine.CheckOperations(checked, part) {
				for _, one := range part {
					fmt.Printf("%+v\n", one.Input)
				}
				break
			}
		}
		os.Exit(1)
	}
}
