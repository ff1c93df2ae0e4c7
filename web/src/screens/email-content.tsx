/** What is in an email. Its html is shown only in a frame without scripts, forms and an origin. */
import { useQuery } from '@tanstack/react-query';
import { useNavigate, useSearch } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import type { Email, EmailPreview } from '../../../sdk/src/api.ts';
import { respond } from '../api/client.ts';
import { useApi } from '../api/scope.ts';
import { Button } from '../ui/button.tsx';
import { Code, Empty, Problem, RowsSkeleton } from '../ui/states.tsx';
import type { ContentTab } from './email.tsx';

const WIDTHS = ['375', '600', '100%'] as const;
const ROUTE = '/$project/$environment/emails/$id';

export function EmailContent({ email, tab }: { email: Email; tab: ContentTab }): ReactNode {
  if (email.html === null && email.text === null) {
    return (
      <Empty title="The content was removed">
        <p>It is kept for a while only; what became of the email stays.</p>
      </Empty>
    );
  }
  if (tab === 'source') return <Source email={email} />;
  if (tab === 'preview') return <Preview email={email} />;
  const text = tab === 'html' ? email.html : (email.text ?? null);
  if (!text) {
    const about =
      tab === 'html'
        ? 'This email is plain text.'
        : 'The text is derived from the html; the source has it.';
    return <p className="p-4 text-muted">{about}</p>;
  }
  return (
    <div className="p-4">
      <Code what={tab} text={text} />
    </div>
  );
}

function Preview({ email }: { email: Email }): ReactNode {
  const api = useApi();
  const navigate = useNavigate();
  const [hasRemote, setRemote] = useState(false);
  const { width: chosen } = useSearch({ from: ROUTE });
  const width = WIDTHS.find((one) => one === chosen) ?? '600';
  const link = useQuery({
    queryKey: [...api.key, 'email', email.id, 'link', hasRemote],
    queryFn: ({ signal }) => api.get<EmailPreview>(`/v1/emails/${email.id}/preview`, signal),
    // The frame has what it needs; a new link would load it again.
    staleTime: Infinity,
    gcTime: 0,
  });
  if (link.isPending) return <RowsSkeleton rows={4} />;
  if (link.isError) return <Problem error={link.error} retry={() => void link.refetch()} />;
  // The page of the link on this host, whatever the public URL is.
  const page = `${new URL(link.data.url).pathname}${hasRemote ? '' : '?remote=no'}`;
  return (
    <div className="space-y-3 p-4">
      <div className="flex flex-wrap gap-2">
        {WIDTHS.map((one) => (
          <Button
            key={one}
            aria-pressed={one === width}
            className="aria-pressed:bg-chosen"
            onClick={() =>
              void navigate({
                to: '.',
                params: true,
                search: (all) => ({ ...all, width: one }),
                replace: true,
              })
            }
          >
            {one === '100%' ? 'Full width' : `${one} px`}
          </Button>
        ))}
        <Button disabled={hasRemote} onClick={() => setRemote(true)}>
          {hasRemote ? 'Remote images are shown' : 'Show remote images'}
        </Button>
      </div>
      <div className="overflow-x-auto">
        <iframe
          key={page}
          title="Preview of the email"
          sandbox=""
          referrerPolicy="no-referrer"
          src={page}
          className="h-150 max-w-full rounded-lg border border-line bg-paper scheme-light"
          style={{ width: width === '100%' ? '100%' : `${width}px` }}
        />
      </div>
    </div>
  );
}

/** The bytes as they are sent to the first recipient. */
function Source({ email }: { email: Email }): ReactNode {
  const { key, scope } = useApi();
  const source = useQuery({
    queryKey: [...key, 'email', email.id, 'source'],
    queryFn: async ({ signal }) =>
      (await respond('GET', `/v1/emails/${email.id}/content`, { scope, signal })).text(),
  });
  if (source.isPending) return <RowsSkeleton rows={6} />;
  if (source.isError) return <Problem error={source.error} retry={() => void source.refetch()} />;
  return (
    <div className="p-4">
      <Code what="source" text={source.data} />
    </div>
  );
}
