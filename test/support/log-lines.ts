/** The log of a service, parsed. */
import type { Service } from './service.ts';

// oxlint-disable-next-line typescript/no-explicit-any
export type LogLine = { level: string; time: string; msg: string; [field: string]: any };

/** Returns the complete lines since the start. @param from offset in characters, for later lines only */
export function logLines({ logs }: Pick<Service, 'logs'>, from = 0): LogLine[] {
  return logs
    .slice(from)
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line) => JSON.parse(line) as LogLine);
}

/** Returns the names of all fields, including nested ones. */
export function fieldNames(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(fieldNames);
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => [name, ...fieldNames(inner)]);
}
