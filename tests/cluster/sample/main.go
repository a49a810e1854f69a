// The one program in the images that test pods run. What it does is its first argument; without one it
// waits to be told to stop, as the container that holds a pod's namespaces does.
package main

import (
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 2 {
		wait()
		return
	}
	argument := strings.Join(os.Args[2:], " ")
	switch os.Args[1] {
	case "print":
		fmt.Println(argument)
	case "environment":
		fmt.Println(os.Getenv(argument))
	case "exit":
		os.Exit(number(argument))
	case "sleep":
		time.Sleep(time.Duration(number(argument)) * time.Second)
	case "serve":
		serve(argument, http.StatusOK)
	case "refuse":
		serve(argument, http.StatusServiceUnavailable)
	default:
		fmt.Fprintln(os.Stderr, "unknown:", os.Args[1])
		os.Exit(2)
	}
}

func serve(port string, status int) {
	fmt.Println("listening on", port, "and answering", status)
	go func() {
		err := http.ListenAndServe(":"+port, http.HandlerFunc(
			func(answer http.ResponseWriter, _ *http.Request) { answer.WriteHeader(status) },
		))
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}()
	wait()
}

func wait() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	<-stop
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return value
}
