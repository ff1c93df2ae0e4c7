/**
 * The reasons why the embedded database cannot be opened, as one typed error. Each message tells the
 * operator what is wrong and what to do. The surfaces print it and exit with 2.
 */

export type EngineProblemKind =
  /** Another process holds the data directory; `running` says which. */
  | 'running'
  | 'wrong-user'
  | 'unusable-path'
  /** A folder on the way is closed to the user the database runs as. */
  | 'closed-folder'
  | 'no-private-user'
  /** The directory was made by another major version of PostgreSQL. */
  | 'other-major'
  | 'no-binaries'
  | 'socket-folder'
  | 'start-failed';

/** The process that holds a data directory, as it published itself. */
export type RunningInfo = {
  pid: number;
  /** `command`: a CLI command that runs the engine for itself and ends soon. */
  kind: 'service' | 'command';
  /** Where the API answers; null until the service is ready. */
  url: string | null;
  /** Where the database answers; null until it does. */
  engine: { socketDir: string; port: number } | null;
};

export class EngineProblem extends Error {
  override readonly name = 'EngineProblem';
  readonly kind: EngineProblemKind;
  readonly running: RunningInfo | null;

  constructor(kind: EngineProblemKind, message: string, running: RunningInfo | null = null) {
    super(message);
    this.kind = kind;
    this.running = running;
  }
}
