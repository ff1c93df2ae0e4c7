/** The log of a service, as a program reads it. */
import type { Service } from './service.ts';

// oxlint-disable-next-line typescript/no-explicit-any
export type LogLine = { level: string; time: string; msg: string; [field: string]: any };

/** Whole lines since the start. @param from in characters, for those that came after a moment */
export function logLines({ logs }: Pick<Service, 'logs'>, from = 0): LogLine[] {
  return logs
    .slice(from)
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line) => JSON.parse(line) as LogLine);
}

/** The names of all fields, also of those within fields. */
export function fieldNames(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(fieldNames);
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => [name, ...fieldNames(inner)]);
}
