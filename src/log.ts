/**
 * The log: one line per request, attempt and webhook call, on stderr. JSON for machines; when a
 * person is looking (stderr is a terminal) the same as short text. Promises: no message content,
 * addresses or keys (whoever logs passes ids); a line is written as soon as the last write is done,
 * never held back for a fuller buffer.
 */
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
  };
  return pino(settings, options.forPeople ? asText(toStderr) : toStderr);
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

/** Control characters out: a remote server's words must not steer the operator's terminal. */
function factText(value: unknown): string {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  const safe = stripVTControlCharacters(text).replace(/[\u0000-\u001f\u007f-\u009f]/g, ' ');
  return /[\s="]/.test(safe) ? JSON.stringify(safe) : safe;
}
