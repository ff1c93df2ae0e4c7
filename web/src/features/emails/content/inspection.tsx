/** What the message of an email has in it: attachments, advice, links. */
import { useQuery } from '@tanstack/react-query';
import { CircleCheck, Download, TriangleAlert } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { EmailInspection } from '../../../../../sdk/src/api.ts';
import { respond } from '../../../api/client.ts';
import { saveResponse } from '../../../api/download.ts';
import { useApi } from '../../../api/scope.ts';
import { sizeInWords } from '../../../lib/numbers.ts';
import { Button } from '../../../ui/button.tsx';
import { sentenceOf } from '../../../ui/states.tsx';

/** Beyond it Gmail shows a link to the rest of the html. */
const CLIPPED_BEYOND_BYTES = 102 * 1024;

/** What is in an email does not change. */
export function useInspection(emailId: string) {
  const api = useApi();
  return useQuery({
    ...api.query('inspectEmail', { path: { id: emailId } }),
    // Not below the path of the email, which its events read again.
    queryKey: [...api.key, 'inspection', emailId],
    staleTime: Infinity,
  });
}

/** Nothing, where nothing is attached. */
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
              title={`${type}${cid === null ? '' : ', shown within the html'}`}
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

/** Advice about the message; a check that passes is one short line. */
export function Checks({ inspection }: { inspection: EmailInspection }): ReactNode {
  const { checks, unsupported, links, size, html_size: html } = inspection;
  return (
    <div className="space-y-6">
      <ul className="space-y-2" aria-label="Checks">
        {checks.map(({ code, message }) => (
          <Finding key={code}>{message}</Finding>
        ))}
        {unsupported.map(({ feature, clients }) => (
          <Finding key={feature}>
            The html has {feature}, which {notShownBy(clients)}.
          </Finding>
        ))}
        {checks.length === 0 && (
          <Passed>Nothing that receivers or readers are known to dislike.</Passed>
        )}
        {unsupported.length === 0 && html > 0 && (
          <Passed>Mail programs show all of the html, as far as it is known.</Passed>
        )}
        {html <= CLIPPED_BEYOND_BYTES && (
          <Passed>
            The message has {sizeInWords(size)}
            {html > 0 &&
              `, its html ${sizeInWords(html)} of the 102 KB beyond which Gmail clips it`}
            .
          </Passed>
        )}
        {inspection.headers.some(({ name }) => /^list-unsubscribe$/i.test(name)) && (
          <Passed>Readers can unsubscribe in their mail program (List-Unsubscribe).</Passed>
        )}
      </ul>
      {links.length > 0 && <Links links={links} />}
    </div>
  );
}

function notShownBy(clients: readonly string[]): string {
  if (clients.includes('all mail programs')) return 'no mail program shows';
  return `${listed(clients)} ${clients.length === 1 ? 'does' : 'do'} not show`;
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

/** As text: a link of an email may confirm or unsubscribe what is not the reader's own. */
function Links({ links }: { links: readonly string[] }): ReactNode {
  return (
    <section>
      <h2 className="mb-2 font-medium">Links</h2>
      <ul className="space-y-1 font-mono text-xs">
        {links.map((link) => (
          <li key={link} className="break-all">
            {link === '' ? '(empty)' : link}
          </li>
        ))}
      </ul>
    </section>
  );
}
