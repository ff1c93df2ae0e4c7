/**
 * Routes of the suppression list as a file: import of CSV or JSON, export as CSV, both streamed
 * (suppression-files.ts). An import is the only request whose body may be CSV and may exceed 45 MB. It has no time
 * limit as long as data arrives.
 */
import { Readable } from 'node:stream';
import type {
  FastifyReply,
  FastifyRequest,
  FastifySchemaCompiler,
  onRequestHookHandler,
} from 'fastify';
import { MaximumReached, Overloaded } from '../core/refusals.ts';
import { DatabaseUnavailable } from '../database/database.ts';
import {
  exportCsv,
  importFile,
  type ImportResult,
  IMPORT_ROWS_MAX,
  newImportResult,
  importToWire,
  TooManyRows,
} from './suppression-files.ts';
import { ReasonNeeded, UnusableFile } from '../move-in/entries.ts';
import { callerOf } from '../http/access.ts';
import {
  encodingFailureOf,
  type HttpFailure,
  refuseEncoding,
  sendFailure,
} from '../http/errors.ts';
import { isFromLocalOperator } from '../http/socket/local-operator.ts';
import { failures } from '../http/schemas.ts';
import {
  csvFile,
  suppressionExportQuery,
  suppressionImport,
  suppressionImportFile,
  suppressionImportQuery,
} from './routes.ts';
import { validatorCompiler } from '../http/validation.ts';
import type { App, HttpServices } from '../http/services.ts';
import { drainBody, readUpload, UploadStalled } from '../http/socket/bodies.ts';

const TAGS = ['Suppressions'];

/** Skips the schema of the body, which is a stream. `importFile` checks each entry. */
const validateAllButBody: FastifySchemaCompiler<unknown> = (route) =>
  route.httpPart === 'body'
    ? () => true
    : validatorCompiler(route as Parameters<typeof validatorCompiler>[0]);

/** Limits on the imports of a worker and of a project, so that other requests keep a database connection. */
const IMPORTS_MAX = 3;
const IMPORTS_OF_PROJECT_MAX = 2;

const NOT_A_LIST: HttpFailure = {
  status: 415,
  code: 'unsupported_media_type',
  message:
    'The body must be CSV or JSON in UTF-8; send it with Content-Type: text/csv or application/json.',
};

type FileOptions = {
  /** Milliseconds that a sender may pause within the body, or continue to send after the response. */
  silenceMs: number;
};

export function registerSuppressionFileRoutes(
  app: App,
  services: HttpServices,
  options: FileOptions,
): void {
  registerExport(app, services);
  // A scope of its own, because no other route accepts CSV, or JSON as a stream.
  app.register(async (scope: App) => {
    scope.removeAllContentTypeParsers();
    const types = ['text/csv', 'application/json', 'application/x-ndjson'];
    scope.addContentTypeParser(types, (_request, body, done) => done(null, body));
    registerImport(scope, services, options);
  });
}

function registerExport(app: App, { db }: HttpServices): void {
  app.get('/v1/suppressions/export', {
    // A HEAD would read the whole list.
    exposeHeadRoute: false,
    schema: {
      summary: 'Export suppressed addresses',
      description:
        'Returns the suppressions as CSV. A cell that a spreadsheet would evaluate as a formula gets a quote ' +
        'as prefix. An import removes the quote.',
      operationId: 'exportSuppressions',
      tags: TAGS,
      querystring: suppressionExportQuery,
      response: { 200: csvFile, ...failures(422) },
    },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const { reason = null, address: prefix = null } = request.query;
      const pieces = exportCsv(db.readsOf(caller.projectId), caller, { reason, prefix });
      // The response can report an unavailable database only before its first byte.
      const first = await pieces.next();
      const name = `suppressions-${caller.environment}.csv`;
      return (reply as FastifyReply)
        .headers({
          'content-type': 'text/csv; charset=utf-8',
          'content-disposition': `attachment; filename="${name}"`,
          'x-content-type-options': 'nosniff',
        })
        .send(Readable.from(prepend(first.done ? '' : first.value, pieces), { objectMode: false }));
    },
  });
}

async function* prepend(first: string, rest: AsyncIterable<string>): AsyncGenerator<string> {
  yield first;
  yield* rest;
}

function registerImport(
  app: App,
  { db, world, suppressionsMaximum }: HttpServices,
  { silenceMs }: FileOptions,
): void {
  const slots = new ImportSlots();
  app.post('/v1/suppressions/import', {
    config: { checkUpload: requireListType },
    validatorCompiler: validateAllButBody,
    schema: {
      summary: 'Import suppressed addresses',
      description:
        `Imports a CSV file of up to ${IMPORT_ROWS_MAX} rows with the columns address, reason (default ` +
        'manual), created_at and expires_at, named in the first row or in this order. The lists of Resend, ' +
        'Postmark, SendGrid, Mailgun and Amazon SES are recognized by their columns, as CSV or as the JSON ' +
        'of their APIs (Content-Type: application/json). Bounces that would not suppress an address here are ' +
        'left out. Valid rows are added even if others are rejected. Repeating an import changes nothing.',
      operationId: 'importSuppressions',
      tags: TAGS,
      consumes: ['text/csv'],
      querystring: suppressionImportQuery,
      body: suppressionImportFile,
      response: { 200: suppressionImport, ...failures(409, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const body = (request.body as unknown as Readable | undefined) ?? Readable.from([]);
      const caller = callerOf(request);
      if (!slots.tryTake(caller.projectId)) {
        drainBody(body, silenceMs);
        throw new Overloaded('two imports of this project or three in total are in progress');
      }
      const result = newImportResult();
      try {
        const pieces = readUpload(request.raw, { body, silenceMs, world });
        const reason = request.query.reason ?? null;
        const maximum = isFromLocalOperator(request) ? undefined : suppressionsMaximum;
        await importFile(db, caller, { pieces, result, reason, maximum });
        return importToWire(result);
      } catch (error) {
        drainBody(body, silenceMs);
        const failure = importFailureOf(error, result);
        if (failure === null) throw error;
        return await sendFailure(reply, failure);
      } finally {
        slots.release(caller.projectId);
      }
    },
  });
}

/** The imports in progress of this worker. */
class ImportSlots {
  readonly #projectIds: string[] = [];

  /** @returns false when the project or the worker has the maximum number of imports */
  tryTake(projectId: string): boolean {
    const ofProject = this.#projectIds.filter((id) => id === projectId);
    if (this.#projectIds.length >= IMPORTS_MAX) return false;
    if (ofProject.length >= IMPORTS_OF_PROJECT_MAX) return false;
    this.#projectIds.push(projectId);
    return true;
  }

  release(projectId: string): void {
    this.#projectIds.splice(this.#projectIds.indexOf(projectId), 1);
  }
}

const requireListType: onRequestHookHandler = (request: FastifyRequest, reply, done) => {
  const { 'content-type': type = '' } = request.headers;
  const isKnown = /^(?:text\/csv|application\/(?:x-nd)?json) *(?:;|$)/i.test(type);
  const charset = /charset="?([^";\s]+)/i.exec(type)?.[1] ?? 'utf-8';
  const encodingFailure = encodingFailureOf(request);
  if (encodingFailure !== null) return void refuseEncoding(reply, encodingFailure);
  if (isKnown && /^(utf-?8|us-ascii)$/i.test(charset)) return done();
  sendFailure(reply, NOT_A_LIST);
};

/** Returns the error that ended an import, with the number of rows added before; null for other errors. */
function importFailureOf(error: unknown, { added }: ImportResult): HttpFailure | null {
  const done = `${added} addresses were added before; importing the file again adds only the missing ones`;
  if (error instanceof TooManyRows) {
    const message = `The file has more than ${IMPORT_ROWS_MAX} rows; send the rest in another file. ${done}.`;
    return { status: 413, code: 'payload_too_large', message };
  }
  if (error instanceof MaximumReached) {
    return { status: 409, code: 'conflict', message: `${error.message} ${done}.` };
  }
  if (error instanceof UploadStalled) {
    const message = `The file did not arrive completely; ${done}.`;
    return { status: 408, code: 'request_timeout', message };
  }
  if (error instanceof ReasonNeeded) {
    const choices = error.reasons.map((reason) => `?reason=${reason}`).join(' or ');
    return fileFailure(`${error.message}; say which with ${choices}.`);
  }
  if (error instanceof UnusableFile) {
    return fileFailure(added === 0 ? `${error.message}.` : `${error.message}. ${done}.`);
  }
  if (error instanceof DatabaseUnavailable) {
    const message = `The connection to the database was lost; ${done}.`;
    return { status: 503, code: 'service_unavailable', message };
  }
  return null;
}

function fileFailure(message: string): HttpFailure {
  return { status: 422, code: 'validation_error', message };
}
