/** The operations of the API as entries of the search. */
import type { ReferenceSource } from '../../src/http/openapi/reference-page.ts';
import type { Entry } from './client/index-options.ts';

export function operationsOf({ paths }: ReferenceSource): Omit<Entry, 'id'>[] {
  return Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, { operationId, summary, description = '' }]) => ({
      url: `/docs/reference#${operationId}`,
      page: 'API reference',
      heading: summary,
      text: `${method.toUpperCase()} ${path} ${operationId} ${description.replaceAll('`', '')}`.trim(),
    })),
  );
}
