/** An email as it is shown, in a frame without scripts, forms and an origin. */
import { useQuery } from '@tanstack/react-query';
import { Moon, Sun } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { Email, EmailPreview as PreviewLink } from '../../../sdk/src/api.ts';
import { useApi } from '../api/scope.ts';
import { Button } from '../ui/button.tsx';
import { Problem, RowsSkeleton } from '../ui/states.tsx';

export const WIDTHS = ['375', '600', '100%'] as const;
export type PreviewView = { width: (typeof WIDTHS)[number]; isDark: boolean };

const WIDTH_LABELS = { '375': 'Phone', '600': 'Desktop', '100%': 'Full width' } as const;

/** @param view what the address of the page keeps */
export function EmailPreview(props: {
  email: Pick<Email, 'id' | 'html'>;
  view: PreviewView;
  onView: (view: PreviewView) => void;
}): ReactNode {
  const { email, view, onView } = props;
  const api = useApi();
  const [hasRemote, setRemote] = useState(false);
  const link = useQuery({
    queryKey: [...api.key, 'email', email.id, 'link', hasRemote],
    queryFn: ({ signal }) => api.get<PreviewLink>(`/v1/emails/${email.id}/preview`, signal),
    // The frame has what it needs; a new link would load it again.
    staleTime: Infinity,
    gcTime: 0,
  });
  if (link.isPending) return <RowsSkeleton rows={4} />;
  if (link.isError) return <Problem error={link.error} retry={() => void link.refetch()} />;
  // The page of the link on this host, whatever the public URL is.
  const page = `${new URL(link.data.url).pathname}${hasRemote ? '' : '?remote=no'}`;
  return (
    <div className="space-y-3">
      <div className="flex flex-wrap gap-2">
        {WIDTHS.map((width) => (
          <Button
            key={width}
            aria-pressed={width === view.width}
            className="aria-pressed:bg-chosen"
            title={width === '100%' ? undefined : `${width} px`}
            onClick={() => onView({ ...view, width })}
          >
            {WIDTH_LABELS[width]}
          </Button>
        ))}
        <Button
          aria-pressed={view.isDark}
          className="aria-pressed:bg-chosen"
          onClick={() => onView({ ...view, isDark: !view.isDark })}
        >
          {view.isDark ? <Sun size={14} aria-hidden /> : <Moon size={14} aria-hidden />}
          Dark
        </Button>
        <Button disabled={hasRemote} onClick={() => setRemote(true)}>
          {hasRemote ? 'Remote images are shown' : 'Show remote images'}
        </Button>
      </div>
      {view.isDark && (
        <p className="text-sm text-muted">
          {hasDarkStyles(email)
            ? 'Its own styles for dark programs apply.'
            : 'It has no styles for dark programs; some of these invert the colours, like this.'}
        </p>
      )}
      <div className="overflow-x-auto">
        <iframe
          key={page}
          title="Preview of the email"
          sandbox=""
          referrerPolicy="no-referrer"
          src={page}
          className={`h-150 max-w-full rounded-lg border border-line ${lookOf(email, view)}`}
          style={{ width: view.width === '100%' ? '100%' : `${view.width}px` }}
        />
      </div>
    </div>
  );
}

function lookOf(email: Pick<Email, 'html'>, { isDark }: PreviewView): string {
  if (!isDark) return 'bg-paper scheme-light';
  return hasDarkStyles(email)
    ? 'bg-ink scheme-dark'
    : 'bg-paper scheme-light invert hue-rotate-180';
}

function hasDarkStyles({ html }: Pick<Email, 'html'>): boolean {
  return /color-scheme/i.test(html ?? '');
}
