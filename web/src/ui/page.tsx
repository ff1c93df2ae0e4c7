/** The frame of a page: its head, in one pattern everywhere, and its body of cards. */
import { createLink } from '@tanstack/react-router';
import { ChevronLeft } from 'lucide-react';
import { type AnchorHTMLAttributes, type ReactNode, type Ref, useEffect } from 'react';
import { type MoreItems, MoreMenu } from './more-menu.tsx';

/**
 * The head of a page. Its actions are right of the title where both fit in a line, else below: a phone measures by the
 * title, and its sentence takes the width that is left.
 * @param props.about one sentence or figure
 * @param props.crumb a link to the list that the page belongs to (Crumb)
 * @param props.primary one button; a page with a verdict has it there
 * @param props.more the actions behind "…"
 * @param props.isFullWidth in line with content that has the width of the window, like a list of emails
 * @param props.children other controls, like a choice of what is shown, before the buttons
 */
export function PageHead(props: {
  title: string;
  about?: ReactNode;
  crumb?: ReactNode;
  primary?: ReactNode;
  secondary?: ReactNode;
  more?: MoreItems;
  isFullWidth?: boolean;
  children?: ReactNode;
}): ReactNode {
  const { title, about, crumb, primary, secondary, more, isFullWidth = false, children } = props;
  useEffect(() => {
    document.title = `${title} · Letterhaus`;
  }, [title]);
  return (
    <header
      className={`flex ${isFullWidth ? '' : 'max-w-[80rem]'} shrink-0 flex-wrap items-start justify-between gap-x-4 gap-y-2 px-(--page-x) pt-4 pb-5 min-[900px]:pt-6`}
    >
      <div
        className={`grow sm:min-w-60 sm:basis-60 ${about ? 'min-w-[min(100%,12rem)]' : 'min-w-0'}`}
      >
        {crumb}
        <h1
          dir="auto"
          className="text-left text-xl font-semibold text-balance break-words max-sm:py-0.5"
        >
          {title}
        </h1>
        {about && (
          <p className="mt-0.5 text-muted text-pretty [overflow-wrap:anywhere] max-sm:text-balance max-sm:[contain:inline-size]">
            {about}
          </p>
        )}
      </div>
      <div className="flex min-w-0 flex-wrap items-center gap-2 empty:hidden">
        {children}
        {secondary}
        {primary}
        {more && <MoreMenu items={more} />}
      </div>
    </header>
  );
}

/** The parts of a page below its head, one below the other. */
export function PageBody({ children }: { children: ReactNode }): ReactNode {
  return (
    <div className="max-w-[80rem] shrink-0 px-(--page-x) pb-14">
      <div className="grid grid-cols-1 content-start gap-6 [--page-x:0px]">{children}</div>
    </div>
  );
}

type AnchorProps = AnchorHTMLAttributes<HTMLAnchorElement> & { ref?: Ref<HTMLAnchorElement> };

/** A link to the list that a page belongs to, above its title. */
export const Crumb = createLink(({ children, ...rest }: AnchorProps) => (
  <a
    {...rest}
    className="mb-0.5 inline-flex items-center gap-1 text-sm text-muted hover:text-text print:hidden"
  >
    <ChevronLeft size={14} aria-hidden className="-ml-0.5" />
    {children}
  </a>
));
