/* Holds a pod's namespaces open: collects orphans, ends on a signal, does nothing else. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int signal) {
  (void)signal;
  _exit(0);
}

static void collect(int signal) {
  (void)signal;
  while (waitpid(-1, 0, WNOHANG) > 0) {
  }
}

int main(void) {
  struct sigaction ends = {.sa_handler = end}, collects = {.sa_handler = collect, .sa_flags = SA_NOCLDSTOP};
  sigaction(SIGINT, &ends, 0);
  sigaction(SIGTERM, &ends, 0);
  sigaction(SIGCHLD, &collects, 0);
  for (;;) pause();
}
