/** The attachments, links and checks of a message. */
import { useQuery } from '@tanstack/react-query';
import { CircleCheck, Download, TriangleAlert } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { EmailInspection } from '../../../../../sdk/src/api.ts';
import { respond } from '../../../api/client.ts';
import { saveResponse } from '../../../api/download.ts';
import { useApi } from '../../../api/scope.ts';
import { sizeInWords } from '../../../lib/numbers.ts';
import { Button } from '../../../ui/button.tsx';
import { Card } from '../../../ui/card.tsx';
import { sentenceOf } from '../../../ui/states.tsx';

/** Above this size Gmail replaces the rest of the HTML with a link. */
const CLIPPED_BEYOND_BYTES = 102 * 1024;

export function useInspection(emailId: string) {
  const api = useApi();
  return useQuery({
    ...api.query('inspectEmail', { path: { id: emailId } }),
    // Not below the path of the email, because its events reload that path.
    queryKey: [...api.key, 'inspection', emailId],
    staleTime: Infinity,
  });
}

export function Attachments({ inspection }: { inspection: EmailInspection }): ReactNode {
  const { scope } = useApi();
  const [failure, setFailure] = useState<string | null>(null);
  const { id, attachments } = inspection;
  if (attachments.length === 0) return null;
  const save = (number: number, filename: string): void => {
    setFailure(null);
    respond('downloadEmailAttachment', { path: { id, number }, scope })
      .then((response) => saveResponse(response, filename))
      .catch((error: unknown) => setFailure(sentenceOf(error)));
  };
  return (
    <section aria-label="Attachments">
      <ul className="flex flex-wrap gap-2">
        {attachments.map(({ number, filename, size, content_type: type, content_id: cid }) => (
          <li key={number}>
            <Button
              title={`${type}${cid === null ? '' : ', shown inline'}`}
              onClick={() => save(number, filename)}
              className="max-w-full"
            >
              <Download size={14} aria-hidden className="shrink-0" />
              <span className="sr-only">Download </span>
              <span className="truncate">{filename}</span>{' '}
              <span className="text-muted tabular-nums">{sizeInWords(size)}</span>
            </Button>
          </li>
        ))}
      </ul>
      {failure !== null && (
        <p role="alert" className="mt-2 text-sm text-bad">
          {failure}
        </p>
      )}
    </section>
  );
}

export function Checks({ inspection }: { inspection: EmailInspection }): ReactNode {
  const { checks, unsupported, links, size, html_size: html } = inspection;
  return (
    <div className="space-y-4">
      <Card title="Checks">
        <ul className="space-y-2 text-sm" aria-label="Checks">
          {checks.map(({ code, message }) => (
            <Finding key={code}>{message}</Finding>
          ))}
          {unsupported.map(({ feature, clients }) => (
            <Finding key={feature}>
              The HTML uses {feature}, which {unsupportedBy(clients)}.
            </Finding>
          ))}
          {checks.length === 0 && <Passed>No known problems for receivers or readers.</Passed>}
          {unsupported.length === 0 && html > 0 && (
            <Passed>All mail programs that we know of support this HTML.</Passed>
          )}
          {html <= CLIPPED_BEYOND_BYTES && (
            <Passed>
              The message has {sizeInWords(size)}.
              {html > 0 && ` Its HTML has ${sizeInWords(html)}; Gmail clips HTML above 102 KB.`}
            </Passed>
          )}
          {inspection.headers.some(({ name }) => /^list-unsubscribe$/i.test(name)) && (
            <Passed>Readers can unsubscribe in their mail program (List-Unsubscribe).</Passed>
          )}
        </ul>
      </Card>
      {links.length > 0 && <Links links={links} />}
    </div>
  );
}

function unsupportedBy(clients: readonly string[]): string {
  if (clients.includes('all mail programs')) return 'no mail program supports';
  return `${listed(clients)} ${clients.length === 1 ? 'does' : 'do'} not support`;
}

function listed(names: readonly string[]): string {
  const last = names.at(-1) ?? '';
  return names.length < 2 ? last : `${names.slice(0, -1).join(', ')} and ${last}`;
}

function Finding({ children }: { children: ReactNode }): ReactNode {
  return (
    <li className="flex items-start gap-2">
      <TriangleAlert size={15} aria-label="Advice:" className="mt-0.75 shrink-0 text-wait" />
      <span className="min-w-0 break-words">{children}</span>
    </li>
  );
}

function Passed({ children }: { children: ReactNode }): ReactNode {
  return (
    <li className="flex items-start gap-2 text-muted">
      <CircleCheck size={15} aria-hidden className="mt-0.75 shrink-0 text-good" />
      <span className="min-w-0">{children}</span>
    </li>
  );
}

/** As text: following a link could confirm or unsubscribe on behalf of the recipient. */
function Links({ links }: { links: readonly string[] }): ReactNode {
  return (
    <Card title="Links" about={String(links.length)}>
      <ul className="space-y-1 font-mono text-xs">
        {links.map((link) => (
          <li key={link} className="break-all">
            {link === '' ? '(empty)' : link}
          </li>
        ))}
      </ul>
    </Card>
  );
}
