/** What a command gets from main.ts: the outside world. */
import type { World } from '../core/world.ts';
import type { Env } from '../config/env-reader.ts';

export type Cli = {
  env: Env;
  world: World;
  /** How this command line is called here, for what people copy: `./bin/posthorn`. */
  program: string;
  /** Results: for people or, with --json, for programs. */
  out: (text: string) => void;
  /** Everything else. */
  err: (text: string) => void;
  /** Asks a person yes or no; undefined where there is none to ask. */
  confirm?: (question: string) => Promise<boolean>;
};
