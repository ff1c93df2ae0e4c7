/** The controls of a preview: width, dark theme, remote images. */
import { Moon, Sun } from 'lucide-react';
import type { ReactNode } from 'react';
import type { ColourScheme } from '../../../src/mail/html/colour-scheme.ts';
import { Button } from './button.tsx';
import { Segments } from './segments.tsx';

export const WIDTHS = ['375', '600', '100%'] as const;
export type PreviewView = { width: (typeof WIDTHS)[number]; isDark: boolean };

const WIDTH_LABELS = { '375': 'Phone', '600': 'Desktop', '100%': 'Full width' } as const;

export function PreviewControls(props: {
  html: string | null;
  view: PreviewView;
  onView: (view: PreviewView) => void;
  hasRemote: boolean;
  onRemote: () => void;
}): ReactNode {
  const { html, view, onView, hasRemote, onRemote } = props;
  return (
    <>
      <div className="flex flex-wrap items-center gap-2">
        {/* On a phone all of them are as wide as the phone. */}
        <div className="max-sm:hidden">
          <Segments
            label="Width"
            options={WIDTHS.map((width) => [width, WIDTH_LABELS[width]])}
            chosen={view.width}
            onChoose={(width) => onView({ ...view, width })}
          />
        </div>
        <Button
          aria-pressed={view.isDark}
          className="aria-pressed:border-accent aria-pressed:bg-accent-tint aria-pressed:text-accent"
          onClick={() => onView({ ...view, isDark: !view.isDark })}
        >
          {view.isDark ? <Sun size={14} aria-hidden /> : <Moon size={14} aria-hidden />}
          Dark
        </Button>
        <Button disabled={hasRemote} onClick={() => onRemote()}>
          {hasRemote ? 'Remote images are shown' : 'Show remote images'}
        </Button>
      </div>
      {view.isDark && (
        <p className="text-sm text-muted">
          {hasDarkStyles(html)
            ? 'This email has its own dark styles.'
            : 'This email has no dark styles. Some mail programs invert its colours, as shown here.'}
        </p>
      )}
    </>
  );
}

/** HTML without dark styles stays light, and its frame is inverted instead. */
export function schemeOf(html: string | null, { isDark }: PreviewView): ColourScheme {
  return isDark && hasDarkStyles(html) ? 'dark' : 'light';
}

/** The classes of the frame. */
export function lookOf(html: string | null, { isDark }: PreviewView): string {
  if (!isDark) return 'bg-paper scheme-light';
  return hasDarkStyles(html) ? 'bg-ink scheme-dark' : 'bg-paper scheme-light invert hue-rotate-180';
}

export function widthOf({ width }: PreviewView): string {
  return width === '100%' ? '100%' : `${width}px`;
}

function hasDarkStyles(html: string | null): boolean {
  return /color-scheme/i.test(html ?? '');
}
