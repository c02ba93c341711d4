// Measures Quamina on the rules and events of two files, for event_rules.py.
//
//	quamina RULES EVENTS RUNS
//
// RULES has a pattern per line, whose name is the number of its line, and EVENTS an event per line. It prints two lines of
// JSON: for each event the names of the patterns that match, ascending; and for each run the mean nanoseconds of an event.
// They are CPU time of the thread that matches. What other threads collect as garbage is not in them.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"quamina.net/go/quamina/v2"
)

const lineBytesMax = 1 << 20
const threadClock = 3              // CLOCK_THREAD_CPUTIME_ID
const runNanoseconds = 200_000_000 // a run goes through the events until this time has passed

func main() {
	runtime.LockOSThread()
	matcher := must(quamina.New())
	for number, pattern := range lines(os.Args[1]) {
		check(matcher.AddPattern(number, string(pattern)))
	}
	events := lines(os.Args[2])
	found := make([][]int, len(events))
	for number, event := range events {
		found[number] = []int{}
		for _, name := range must(matcher.MatchesForEvent(event)) {
			found[number] = append(found[number], name.(int))
		}
		slices.Sort(found[number])
	}
	means := make([]float64, must(strconv.Atoi(os.Args[3])))
	for run := range means {
		started, matched := threadNanoseconds(), 0
		for matched == 0 || threadNanoseconds()-started < runNanoseconds {
			for _, event := range events {
				must(matcher.MatchesForEvent(event))
			}
			matched += len(events)
		}
		means[run] = float64(threadNanoseconds()-started) / float64(matched)
	}
	fmt.Println(string(must(json.Marshal(found))))
	fmt.Println(string(must(json.Marshal(means))))
}

func lines(path string) [][]byte {
	file := must(os.Open(path))
	defer file.Close()
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, lineBytesMax)
	var read [][]byte
	for scanner.Scan() {
		read = append(read, slices.Clone(scanner.Bytes()))
	}
	check(scanner.Err())
	return read
}

func threadNanoseconds() int64 {
	var now syscall.Timespec
	_, _, failed := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, threadClock, uintptr(unsafe.Pointer(&now)), 0)
	if failed != 0 {
		check(failed)
	}
	return now.Nano()
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
