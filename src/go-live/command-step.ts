/** The result of a step of `letterhaus go-live`, and what all steps need. */
import type { Letterhaus } from '../../sdk/src/client.ts';
import type { Cli } from '../cli/command.ts';
import type { Config } from '../config/config.ts';

/** @property state `todo`: the operator has to do something, which `message` says; `skipped`: not asked for */
export type Step = {
  step: 'machine' | 'domain' | 'records' | 'verification' | 'key' | 'first_message' | 'dmarc';
  state: 'done' | 'todo' | 'skipped';
  message: string;
  /** Further lines for people. */
  lines?: readonly string[];
  /** Further fields for programs. */
  data?: Readonly<Record<string, unknown>>;
};

export type GoLiveOptions = {
  project?: string;
  yes?: true;
  json?: true;
  zoneFile?: string;
  dns?: string;
  wait: number;
  keyFile?: string;
  to?: string;
  from?: string;
};

export type GoLive = {
  cli: Cli;
  /** Requests to the live environment of the project. */
  client: Letterhaus;
  config: Config;
  /** The domain. */
  name: string;
  options: GoLiveOptions;
};

/** Asks before a change. @returns null without a terminal and without --yes */
export async function mayChange(
  { cli, options }: GoLive,
  question: string,
): Promise<boolean | null> {
  if (options.yes) return true;
  return cli.confirm === undefined ? null : cli.confirm(question);
}
