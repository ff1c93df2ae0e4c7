/**
 * The log: one line per request, attempt and webhook call, on stderr, as JSON, or as short text when
 * stderr is a terminal; and one for each state that begins or ends. docs/monitoring.md lists them. Names of fields are in
 * snake_case. Guarantee: no message content, keys or addresses of mail (callers pass ids), except what the operator wants of
 * recipients (mail/logged-recipient.ts). A line is written as soon as the write before it is done, not when a buffer is full.
 */
import { writeSync } from 'node:fs';
import { stripVTControlCharacters } from 'node:util';
import { destination, pino, stdTimeFunctions, type DestinationStream, type Logger } from 'pino';

const STDERR = 2;

/**
 * @param options.level one of pino's, or `silent`
 * @param options.forPeople short text instead of JSON
 */
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
  /** Where, without the message. */
  stack?: string;
  cause?: ErrorFacts;
};

/**
 * What is logged of an error. Never PostgreSQL's detail, hint, context or statement, which quote rows
 * and parameters; of a message that may quote a value, not what is in quotation marks.
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
 * SQLSTATE classes whose messages name tables, columns and limits and never a value: connections,
 * constraints, transactions, statements (parameters stand beside them), resources, the system.
 */
const NAMES_ONLY = /^(08|23|25|40|42|53|55|57|58)/;

function quotesInput(error: Error): boolean {
  if (error instanceof SyntaxError) return true; // JSON.parse quotes what it read
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

/** Ends this process with a log line after an uncaught error; Node would print the whole message. */
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

/** `08:30:00.123 info  request method=POST path=/v1/emails status=202`, in UTC. */
export function textLine(json: string): string {
  const { time, level, msg = '', ...rest } = JSON.parse(json) as LogLine;
  const facts = Object.entries(rest).map(([name, value]) => `${name}=${factText(value)}`);
  const start = `${time.slice(11, 23)} ${level.padEnd(5)}`;
  return `${[start, msg, ...facts].filter((part) => part !== '').join(' ')}\n`;
}

/** Replaces control characters: a remote server's text must not control the operator's terminal. */
function factText(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  const safe = stripVTControlCharacters(text).replace(/[\u0000-\u001f\u007f-\u009f]/g, ' ');
  return /[\s="]/.test(safe) ? JSON.stringify(safe) : safe;
}
