/**
 * The log on stderr: one line per request, attempt and webhook call, and one for each state that begins or ends. It is
 * JSON, or short text when stderr is a terminal. docs/monitoring.md lists the lines. Names of fields are in snake_case.
 * Guarantee: no message content, keys or mail addresses (callers pass ids), except the operator's choice for recipients
 * (mail/logged-recipient.ts). A line is written as soon as the write before it is done, not when a buffer is full.
 */
import { writeSync } from 'node:fs';
import { stripVTControlCharacters } from 'node:util';
import { destination, pino, stdTimeFunctions, type DestinationStream, type Logger } from 'pino';

const STDERR = 2;

export function createLog(options: { level: string; forPeople: boolean }): Logger {
  const toStderr = destination({ dest: STDERR, sync: false });
  const settings = {
    level: options.level,
    base: null,
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    serializers: { err: errorFacts },
  };
  return pino(settings, options.forPeople ? asText(toStderr) : toStderr);
}

export type ErrorFacts = {
  type: string;
  message: string;
  code?: string;
  table?: string;
  constraint?: string;
  routine?: string;
  stack?: string;
  cause?: ErrorFacts;
};

/**
 * Returns the facts of an error for the log. Leaves out PostgreSQL's detail, hint, context and statement, which quote
 * rows and parameters. In a message that may quote a value, it replaces the text in quotation marks.
 */
export function errorFacts(error: unknown): ErrorFacts {
  if (!(error instanceof Error)) return { type: typeof error, message: 'something was thrown' };
  const { code, table, constraint, routine } = error as Error & Record<string, unknown>;
  const frames = error.stack?.split('\n').filter((line) => /^\s+at /.test(line));
  return {
    type: error.name,
    message: quotesInput(error) ? withoutQuotes(error.message) : error.message,
    ...texts({ code, table, constraint, routine }),
    ...(frames && { stack: frames.join('\n') }),
    ...(error.cause !== undefined && { cause: errorFacts(error.cause) }),
  };
}

/**
 * SQLSTATE classes whose messages contain names of tables, columns and limits, but no values: connections, constraints,
 * transactions, statements (whose parameters are separate), resources, the system.
 */
const NAMES_ONLY = /^(08|23|25|40|42|53|55|57|58)/;

function quotesInput(error: Error): boolean {
  if (error instanceof SyntaxError) return true; // JSON.parse quotes its input
  const { code, severity } = error as { code?: unknown; severity?: unknown };
  return severity !== undefined && !NAMES_ONLY.test(String(code));
}

function withoutQuotes(message: string): string {
  return message.replace(/"[^]*"/, '"…"');
}

function texts(facts: Record<string, unknown>): Partial<ErrorFacts> {
  return Object.fromEntries(Object.entries(facts).filter(([, fact]) => typeof fact === 'string'));
}

export function errorText(error: Error): string {
  const { type, message, stack = '' } = errorFacts(error);
  return `${type}: ${message}\n${stack}`;
}

/** Ends this process with a log line after an uncaught error. Node would print the whole message. */
export function logUncaught(): void {
  process.on('uncaughtException', (error) => {
    const time = new Date().toISOString();
    const line = { level: 'fatal', time, err: errorFacts(error), msg: 'a bug ended this process' };
    writeSync(STDERR, `${JSON.stringify(line)}\n`);
    process.exit(1);
  });
}

function asText(output: DestinationStream): DestinationStream {
  return { write: (line: string) => output.write(textLine(line)) };
}

type LogLine = { time: string; level: string; msg?: string; [fact: string]: unknown };

/** Returns `08:30:00.123 info  request method=POST path=/v1/emails status=202`, in UTC. */
export function textLine(json: string): string {
  const { time, level, msg = '', ...rest } = JSON.parse(json) as LogLine;
  const facts = Object.entries(rest).map(([name, value]) => `${name}=${factText(value)}`);
  const start = `${time.slice(11, 23)} ${level.padEnd(5)}`;
  return `${[start, msg, ...facts].filter((part) => part !== '').join(' ')}\n`;
}

/** Replaces control characters, so that a remote server's text cannot control the operator's terminal. */
function factText(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  const safe = stripVTControlCharacters(text).replace(/[\u0000-\u001f\u007f-\u009f]/g, ' ');
  return /[\s="]/.test(safe) ? JSON.stringify(safe) : safe;
}
