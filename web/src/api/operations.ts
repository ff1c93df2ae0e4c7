/**
 * The operations of the API, by their ids in docs/openapi.json. Their types are generated, so a wrong path, parameter
 * or field of a response does not compile.
 */
import { OPERATIONS, type Operations } from '../../../sdk/src/api.ts';
import { SESSION_OPERATIONS, type SessionOperations } from './session-operations.ts';

const PLACES = { ...OPERATIONS, ...SESSION_OPERATIONS };
type Places = typeof PLACES;
type All = Operations & SessionOperations;

export type OperationId = keyof Places;
export type Result<Id extends OperationId> = All[Id]['result'];
export type Query<Id extends OperationId> = All[Id]['query'];
export type Body<Id extends OperationId> = All[Id]['body'];

type Names<Path> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | Names<Rest>
  : never;
/** The values of the parameters in the path. */
export type PathValues<Id extends OperationId> = Record<Names<Places[Id][1]>, string | number>;

/** A part of a request: required when one of its values is, forbidden when it has none. */
type Part<Name extends string, Fields> = [keyof Fields] extends [never]
  ? { [key in Name]?: never }
  : object extends Fields
    ? { [key in Name]?: Fields }
    : { [key in Name]: Fields };

/** Path, query and body of a request. */
export type Parts<Id extends OperationId> = Part<'path', PathValues<Id>> &
  Part<'query', Query<Id>> &
  (Body<Id> extends undefined ? { body?: never } : { body: Body<Id> });

/** Arguments after the id of an operation. They are optional when all parts are. */
export type PartsArgument<Id extends OperationId, More = object> =
  object extends Parts<Id> ? [parts?: Parts<Id> & More] : [parts: Parts<Id> & More];

/** Operations that read. */
export type ReadId = {
  [Id in OperationId]: Places[Id][0] extends 'GET' ? Id : never;
}[OperationId];

/** Operations that read a list page by page. */
export type ListId = {
  [Id in ReadId]: 'after' extends keyof Query<Id>
    ? Result<Id> extends { data: unknown[]; has_more: boolean }
      ? Id
      : never
    : never;
}[ReadId];
export type Row<Id extends ListId> = Result<Id>['data'][number];

type Values = Readonly<Record<string, string | number>>;
/** The parts of any request, for the code that sends them. */
export type AnyParts = { path?: Values; query?: object; body?: unknown };

export function methodOf(id: OperationId): Places[OperationId][0] {
  return PLACES[id][0];
}

export function pathOf(id: OperationId, values: Values = {}): string {
  return PLACES[id][1].replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(values[name] ?? ''),
  );
}

/** `?a=1&b=2` of what is set. */
export function queryText(values: object = {}): string {
  const entries = Object.entries(values).filter(([, value]) => value != null && value !== '');
  const text = new URLSearchParams(
    entries.map(([name, value]) => [name, String(value)]),
  ).toString();
  return text === '' ? '' : `?${text}`;
}
